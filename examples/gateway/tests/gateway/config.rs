//! The configuration file.

use account_pool_gateway::accounts::Roster;
use account_pool_gateway::config::Settings;

const SAMPLE: &str = include_str!("../../gateway.sample.toml");

#[test]
fn the_sample_is_a_configuration() {
    let settings = Settings::parse(SAMPLE).unwrap();
    assert!(settings.accounts.len() >= 3);
    Roster::read(&settings, &|_| Some("x".to_owned())).unwrap();
}

/// Every line that is commented out is a field as well: with all of them in force, the file must
/// still be one, apart from what it says twice.
#[test]
fn the_fields_that_the_sample_comments_out_exist() {
    let field = |line: &&str| {
        let name = line.strip_prefix("# ").and_then(|rest| rest.split_once(" = "));
        name.is_some_and(|(name, _)| name.chars().all(|it| it.is_ascii_lowercase() || it == '_'))
    };
    let commented: Vec<&str> = SAMPLE.lines().filter(field).collect();
    assert!(commented.len() >= 6, "{commented:?}");
    for line in commented {
        let text = SAMPLE.replacen(line, &line[2..], 1);
        Settings::parse(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// Serde tells all fields of a table when one is unknown.
#[test]
fn every_field_is_in_the_sample() {
    for table in ["server", "upstream", "routing", "state", "admin", "[clients]", "[accounts]"] {
        let error = Settings::parse(&format!("[{table}]\nno_such_field = 1\n")).unwrap_err();
        let error = error.to_string();
        let fields: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert!(!fields.is_empty(), "{error}");
        for field in fields {
            assert!(SAMPLE.contains(&format!("{field} = ")), "{table}: {field} is not shown");
        }
    }
}

#[test]
fn errors_name_the_field_and_what_to_do() {
    let account = "[[accounts]]\nid = \"a\"\nprovider = \"openai\"\nbase_url = \"http://h\"\n\
                   key_env = \"K\"\n";
    let cases = [
        ("[server]\nlisten = \"nowhere\"\n", &["listen", "line 2"][..]),
        ("[server]\nmax_body_bytes = 0\n", &["`server.max_body_bytes`", "more than 0"]),
        ("[upstream]\nmax_header_bytes = 1\n", &["`upstream.max_header_bytes`", "from 8192"]),
        ("[server]\nport = 1\n", &["port", "listen"]),
        ("[pool.sticky]\ntrail = 9\n", &["`pool.sticky.trail`", "from 1 to 8"]),
        ("[pool]\nstickyness = 1\n", &["[pool]", "stickyness"]),
        ("[[clients]]\nname = \"\"\nkey_env = \"K\"\n", &["`clients[0].name`", "give it a name"]),
    ];
    for (text, says) in cases {
        let error = Settings::parse(text).unwrap_err().to_string();
        assert!(says.iter().all(|it| error.contains(it)), "{error}");
    }

    let cases = [
        (account.replace("http://h", "h"), &["`accounts.a.base_url`", "`https://`"][..]),
        (account.replace("\"K\"", "\"\""), &["`accounts.a.key_env`", "environment variable"]),
        (account.replace("\"a\"", "\" \""), &["`accounts[0].id`", "give it a name"]),
        (account.replace("openai", "open-ai"), &["open-ai", "anthropic"]),
        (account.to_owned(), &["`accounts.a.key_env`", "the variable K", "not set"]),
    ];
    for (text, says) in cases {
        let read = Settings::parse(&text).and_then(|settings| Roster::read(&settings, &|_| None));
        let error = read.unwrap_err().to_string();
        assert!(says.iter().all(|it| error.contains(it)), "{error}");
    }
    for (text, says) in [
        (format!("{account}weight = 0.0\n"), "weight must be more than 0"),
        (format!("{account}{account}"), "in the pool already"),
    ] {
        let settings = Settings::parse(&text).unwrap();
        let error = Roster::read(&settings, &|_| Some("k".to_owned())).unwrap_err().to_string();
        assert!(error.contains("`accounts.a`") && error.contains(says), "{error}");
    }
}

#[test]
fn a_refused_account_is_waited_for_unless_the_file_says_otherwise() {
    use account_pool::config::Degraded;

    let degraded = |text: &str| Settings::parse(text).unwrap().pool.degraded;
    assert_eq!(degraded(""), Degraded::Inferred);
    assert_eq!(degraded("[pool.sticky]\ntrail = 2\n"), Degraded::Inferred);
    assert_eq!(degraded("[pool]\ndegraded = \"transient\"\n"), Degraded::Transient);
}
