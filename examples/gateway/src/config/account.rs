//! An account in the configuration.

use account_pool::http::Provider;
use account_pool::{Account, Entitlement, Plan, Tier};
use http::HeaderName;
use serde::Deserialize;

use super::Environment;
use super::error::{ConfigError, ensure};
use crate::api::Api;
use crate::upstream::{BaseUrl, Secret, Upstream};

/// An account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AccountConfig {
    /// Its name, unique in the file.
    pub id: String,
    /// Whose answers it gives.
    pub provider: ProviderName,
    /// The API that it speaks: by default the provider's, OpenAI's for `generic`.
    pub api: Option<Api>,
    /// Where it is, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The environment variable that holds its credential.
    pub key_env: String,
    /// The header that carries the credential: by default the provider's.
    pub auth: Option<Auth>,
    /// The models that it may serve. Left out: all.
    pub models: Option<Vec<String>>,
    /// The models that it must not serve.
    #[serde(default)]
    pub blocked_models: Vec<String>,
    /// Requests per minute. Left out: unlimited.
    pub rpm: Option<u64>,
    /// Tokens per minute. Left out: unlimited.
    pub tokens_per_minute: Option<u64>,
    /// Requests at once. Left out: unlimited.
    pub max_in_flight: Option<u32>,
    /// Priority: accounts of a smaller tier are used first.
    #[serde(default)]
    pub tier: u8,
    /// Its share of the conversations, relative to the others'.
    #[serde(default = "one")]
    pub weight: f64,
    /// Whether it serves only when no other account can.
    #[serde(default)]
    pub fallback_only: bool,
}

/// Whose answers an account gives.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProviderName {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
    /// Any other.
    Generic,
}

/// The header that carries a credential.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Auth {
    /// `authorization: Bearer …`
    Bearer,
    /// `x-api-key`
    XApiKey,
    /// `x-goog-api-key`
    XGoogApiKey,
}

fn one() -> f64 {
    1.0
}

impl AccountConfig {
    /// An account without limits.
    #[must_use]
    pub fn new(id: &str, provider: ProviderName, base_url: &str, key_env: &str) -> Self {
        Self {
            id: id.to_owned(),
            provider,
            api: None,
            base_url: base_url.to_owned(),
            key_env: key_env.to_owned(),
            auth: None,
            models: None,
            blocked_models: Vec::new(),
            rpm: None,
            tokens_per_minute: None,
            max_in_flight: None,
            tier: 0,
            weight: one(),
            fallback_only: false,
        }
    }

    pub(super) fn check(&self, index: usize) -> Result<(), ConfigError> {
        let blank = |text: &str| text.trim().is_empty();
        ensure(!blank(&self.id), format!("accounts[{index}].id"), "is blank: give it a name")?;
        BaseUrl::parse(&self.base_url).map_err(|problem| {
            ConfigError::field(format!("accounts.{}.base_url", self.id), problem)
        })?;
        ensure(
            !blank(&self.key_env),
            format!("accounts.{}.key_env", self.id),
            "is blank: name the environment variable that holds the credential",
        )
    }

    /// The account as the pool knows it. Its selector is its API: an endpoint goes to accounts of
    /// its own API only.
    #[must_use]
    pub fn account(&self) -> Account {
        let account = Account::new(self.id.as_str())
            .plan(self.plan())
            .selectors(self.selectors())
            .blocked_models(self.blocked_models.iter().cloned());
        account.models(self.entitlement())
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::default().tier(Tier(self.tier)).weight(self.weight);
        plan.fallback_only = self.fallback_only;
        plan.max_in_flight = self.max_in_flight;
        if let Some(rpm) = self.rpm {
            plan = plan.rpm(rpm);
        }
        if let Some(tokens) = self.tokens_per_minute {
            plan = plan.tokens_per_minute(tokens);
        }
        plan
    }

    pub(crate) fn entitlement(&self) -> Entitlement {
        self.models.as_ref().map_or(Entitlement::Any, |models| Entitlement::only(models.clone()))
    }

    pub(crate) fn selectors(&self) -> Entitlement {
        Entitlement::only([self.api().as_str()])
    }

    /// Whether it may serve a model.
    pub(crate) fn serves(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.iter().any(|it| it.trim() == model.trim()))
            && !self.blocked_models.iter().any(|blocked| blocked.trim() == model.trim())
    }

    /// The API that it speaks.
    #[must_use]
    pub fn api(&self) -> Api {
        self.api.unwrap_or(match self.provider {
            ProviderName::OpenAi | ProviderName::Generic => Api::OpenAi,
            ProviderName::Anthropic => Api::Anthropic,
            ProviderName::Gemini => Api::Gemini,
        })
    }

    /// What the pool keeps with it.
    ///
    /// # Errors
    ///
    /// When the base URL is none, or the variable is not set or holds what no header can carry.
    pub fn upstream(&self, environment: Environment<'_>) -> Result<Upstream, ConfigError> {
        let at = |name: &str| format!("accounts.{}.{name}", self.id);
        let base = BaseUrl::parse(&self.base_url)
            .map_err(|problem| ConfigError::field(at("base_url"), problem))?;
        let key = read_key(&at("key_env"), &self.key_env, environment)?;
        let (provider, usual) = match self.provider {
            ProviderName::OpenAi => (Provider::OpenAi, Auth::Bearer),
            ProviderName::Anthropic => (Provider::Anthropic, Auth::XApiKey),
            ProviderName::Gemini => (Provider::Google, Auth::XGoogApiKey),
            ProviderName::Generic => (Provider::Generic, Auth::Bearer),
        };
        let (header, prefix) = match self.auth.unwrap_or(usual) {
            Auth::Bearer => ("authorization", "Bearer "),
            Auth::XApiKey => ("x-api-key", ""),
            Auth::XGoogApiKey => ("x-goog-api-key", ""),
        };
        let credential = Secret::new(prefix, &key).ok_or_else(|| {
            ConfigError::field(
                at("key_env"),
                format!("names the variable {}, whose value no header can carry", self.key_env),
            )
        })?;
        let auth = HeaderName::from_static(header);
        Ok(Upstream { provider, api: self.api(), base, auth, credential })
    }
}

/// The value of the variable that `field` names.
pub(crate) fn read_key(
    field: &str,
    variable: &str,
    environment: Environment<'_>,
) -> Result<String, ConfigError> {
    let value = environment(variable).map(|value| value.trim().to_owned());
    value.filter(|value| !value.is_empty()).ok_or_else(|| {
        ConfigError::field(
            field,
            format!("names the variable {variable}, which is not set: set it, or correct the name"),
        )
    })
}
