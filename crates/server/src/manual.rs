//! `hedgerow completions` and `hedgerow man`: what packages install beside the binary.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;

use crate::cli::print;

pub(crate) fn commands() -> [Command; 2] {
    [
        Command::new("completions").about("Prints the completion script of a shell").arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(clap::value_parser!(Shell)),
        ),
        Command::new("man").about("Writes the manual pages, one per command").hide(true).arg(
            Arg::new("to")
                .long("to")
                .value_name("DIRECTORY")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        ),
    ]
}

pub(crate) fn completions(args: &ArgMatches, mut command: Command) -> Result<()> {
    let shell = *args.get_one::<Shell>("shell").context("no shell")?;
    // In memory first: the generator panics if the reader of a pipe has gone.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "hedgerow", &mut script);
    print(&String::from_utf8(script)?)
}

pub(crate) fn man_pages(args: &ArgMatches, command: Command) -> Result<()> {
    let directory = args.get_one::<PathBuf>("to").context("no directory")?;
    let written = |error: io::Error| {
        anyhow::Error::new(error).context(format!("cannot write to {}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(written)?;
    clap_mangen::generate_to(command, directory).map_err(written)
}
