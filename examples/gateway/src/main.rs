//! The gateway as a program: `gateway --config gateway.toml`, or `gateway --demo`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks to its terminal")]

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use account_pool_gateway::config::Settings;
use account_pool_gateway::{Gateway, StartError, demo, watch};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use self::cli::{Arguments, Display};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let usual = if arguments.demo { "warn" } else { "info" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let has_colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(has_colours);
    log.with_writer(std::io::stderr).init();
    let ran = if arguments.demo { show(&arguments).await } else { serve(&arguments).await };
    ran.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

async fn serve(arguments: &Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut settings = Settings::load(arguments.config())?;
    if let Some(listen) = arguments.listen {
        settings.server.listen = listen;
    }
    let gateway = Gateway::start(settings, Arc::new(|name: &str| std::env::var(name).ok())).await?;
    tracing::info!(address = %gateway.address(), "serving; status page at /");
    tokio::select! {
        () = watch::follow(&gateway, arguments.config()) => {}
        () = cli::interrupted() => {}
    }
    tracing::info!("stopping: answers under way may finish; interrupt again to quit at once");
    stop(gateway).await;
    Ok(ExitCode::SUCCESS)
}

async fn show(arguments: &Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut options = arguments.options()?;
    if arguments.upstream_only {
        let upstream = demo::show::upstream(&options).await?;
        println!("upstream  http://{}", upstream.address());
        cli::interrupted().await;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.serve_only {
        let (_upstream, gateway) = demo::show::serve(&options).await?;
        println!("{}", cli::invitation(&options, gateway.address()));
        cli::interrupted().await;
        stop(gateway).await;
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", cli::introduction(&options));
    let mut display = Display::new();
    let shown = match demo::show::run(&options, &mut |progress| display.tell(progress)).await {
        // The usual port is taken: any other will do for a first look.
        Err(demo::show::DemoError::Gateway(StartError::Listen { .. }))
            if !arguments.chooses_port() =>
        {
            options.listen.set_port(0);
            demo::show::run(&options, &mut |progress| display.tell(progress)).await?
        }
        shown => shown?,
    };
    display.finish();
    println!("\n{}", shown.report);
    if arguments.check {
        let complaints = shown.report.complaints();
        for complaint in &complaints {
            eprintln!("not as expected: {complaint}");
        }
        if !complaints.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        println!("All numbers are as expected.");
    }
    if !arguments.exit {
        println!("{}", cli::invitation(&options, shown.gateway.address()));
        cli::interrupted().await;
    }
    stop(shown.gateway).await;
    Ok(ExitCode::SUCCESS)
}

async fn stop(gateway: Gateway) {
    tokio::select! {
        stopped = gateway.stop() => tracing::info!(cut = stopped.cut, "stopped"),
        () = cli::interrupted() => tracing::warn!("quit at once"),
    }
}
