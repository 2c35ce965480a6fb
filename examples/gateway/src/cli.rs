//! The command line and the terminal.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use account_pool_gateway::config::{ConfigError, Settings};
use account_pool_gateway::demo::show::{ADMIN_TOKEN, Options, Part, Progress};
use account_pool_gateway::demo::upstream::MODELS;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// The options that only a demo takes.
const DEMO: &str = "Demo";

/// An LLM gateway on account-pool.
#[derive(Debug, Parser)]
#[command(name = "gateway", version)]
pub(crate) struct Arguments {
    /// The configuration file, by default gateway.toml; gateway.sample.toml shows every field. With
    /// --demo: for all but the accounts.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Where to listen, such as 127.0.0.1:8080, instead of what the file says.
    #[arg(long)]
    pub(crate) listen: Option<SocketAddr>,
    /// Shows the gateway at work, with an upstream of its own: no account is needed.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Accounts per API.
    #[arg(help_heading = DEMO, long, default_value_t = Options::default().accounts)]
    accounts: usize,
    /// Conversations at once.
    #[arg(help_heading = DEMO, long, default_value_t = Options::default().conversations)]
    conversations: usize,
    /// Turns of each conversation.
    #[arg(help_heading = DEMO, long, default_value_t = Options::default().rounds)]
    rounds: usize,
    /// Makes chance repeatable.
    #[arg(help_heading = DEMO, long, default_value_t = Options::default().seed)]
    seed: u64,
    /// Of a hundred questions, how many the upstream throttles.
    #[arg(help_heading = DEMO, long, default_value_t = Options::default().throttle_percent)]
    throttle_percent: u64,
    /// The upstream answers at once and without limits, to measure the gateway.
    #[arg(help_heading = DEMO, long, requires = "demo", conflicts_with = "throttle_percent")]
    fast: bool,
    /// Serves at once, without a show.
    #[arg(help_heading = DEMO, long, requires = "demo", conflicts_with_all = ["exit", "check"])]
    pub(crate) serve_only: bool,
    /// Serves the imitated upstream alone, without a gateway.
    #[arg(help_heading = DEMO, long, requires = "demo", conflicts_with_all = ["exit", "check", "serve_only", "config", "listen"])]
    pub(crate) upstream_only: bool,
    /// Ends when all is shown, rather than to go on serving.
    #[arg(help_heading = DEMO, long, requires = "demo")]
    pub(crate) exit: bool,
    /// Fails when the numbers are not as they should be.
    #[arg(help_heading = DEMO, long, requires = "demo")]
    pub(crate) check: bool,
}

impl Arguments {
    pub(crate) fn config(&self) -> &Path {
        self.config.as_deref().unwrap_or_else(|| Path::new("gateway.toml"))
    }

    /// Whether the port was chosen by whoever started it.
    pub(crate) fn chooses_port(&self) -> bool {
        self.listen.is_some() || self.config.is_some()
    }

    pub(crate) fn options(&self) -> Result<Options, ConfigError> {
        let mut options = Options::default();
        if let Some(path) = &self.config {
            options.settings = Settings::load(path)?;
        }
        options.accounts = self.accounts;
        options.conversations = self.conversations;
        options.rounds = self.rounds;
        options.seed = self.seed;
        options.throttle_percent = self.throttle_percent;
        options.fast = self.fast;
        options.listen = self.listen.unwrap_or(options.settings.server.listen);
        Ok(options)
    }
}

/// Shows progress: a bar on a terminal, a line per part elsewhere.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    part: Option<Part>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = "  {msg:20} {bar:40} {pos}/{len} turns, {elapsed}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, part: None }
    }

    pub(crate) fn tell(&mut self, progress: Progress) {
        let is_new = self.part.replace(progress.part) != Some(progress.part);
        let title = progress.part.title();
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.total as u64);
                if is_new {
                    bar.set_message(title);
                    bar.reset_elapsed();
                }
                bar.set_position(progress.done as u64);
            }
            None if is_new => eprintln!("  {title}: {} turns", progress.total),
            None => {}
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How to go on from here.
pub(crate) fn invitation(options: &Options, address: SocketAddr) -> String {
    let model = MODELS[0];
    let is_own = options.settings.admin.token_env.is_none() && address.ip().is_loopback();
    let unlock = if is_own { format!("  (unlock with {ADMIN_TOKEN})") } else { String::new() };
    format!(
        "The gateway goes on serving; stop it with Ctrl-C.\n\n  \
         status page  http://{address}/{unlock}\n  \
         base URL     http://{address}/v1  (OpenAI), http://{address}  (Anthropic, Gemini)\n\n  \
         curl http://{address}/v1/chat/completions -H 'content-type: application/json' \\\n    \
         -d '{{\"model\": \"{model}\", \"user\": \"me\", \"messages\": [{{\"role\": \"user\", \
         \"content\": \"hello\"}}]}}'\n"
    )
}

/// What is about to be shown.
pub(crate) fn introduction(options: &Options) -> String {
    let Options { accounts, conversations, rounds, throttle_percent, .. } = options;
    format!(
        "An imitation of three providers in this process, {accounts} accounts each, which throttles \
         {throttle_percent} % of\nall questions; a gateway in front of it; {conversations} \
         conversations of {rounds} turns through the gateway.\n"
    )
}

/// Returns on SIGINT or SIGTERM.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
