//! Executes every code block of the README, in order, on one server.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testing::test_deps;

use crate::capture::server_sdks::build_rust;
use crate::harness::{PERSONAL_KEY, PROJECT_KEY, Store};

const README: &str = include_str!("../../../../../README.md");

struct Block<'a> {
    /// `sh`, `python`, …
    language: &'a str,
    /// From the comment before the block: `builds`, `stopped`, or what `tools/test-dist` runs in fresh
    /// systems (`installs: package`).
    remark: &'a str,
    text: &'a str,
}

fn blocks() -> Vec<Block<'static>> {
    let mut parts = README.split("```");
    let mut blocks = Vec::new();
    while let (Some(before), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        let remark = before.trim_end().rsplit_once("<!-- ").map(|(_, remark)| remark);
        let remark = remark.and_then(|remark| remark.strip_suffix(" -->")).unwrap_or_default();
        blocks.push(Block { language, remark, text });
    }
    blocks
}

/// A shell in a temporary directory.
struct ReadmeShell {
    dir: tempfile::TempDir,
    address: SocketAddr,
    environment: Vec<(String, String)>,
    /// Sets the variables that later commands use.
    variables: String,
}

impl ReadmeShell {
    /// Substitutes the keys of the first start and the server's address.
    fn substitute(&self, text: &str) -> String {
        text.replace("phx_…", PERSONAL_KEY)
            .replace("phc_…", PROJECT_KEY)
            .replace("localhost:8000", &self.address.to_string())
            // The project is copied onto itself.
            .replace("https://us.posthog.com", &format!("http://{}", self.address))
            .replace("--project 12345", &format!("--project 1 --to http://{}", self.address))
            .replace("curl -s ", "curl -sSf ")
    }

    fn program(&self, name: &Path, dir: &Path) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_hedgerow")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(name);
        command
            .envs(self.environment.iter().cloned())
            .env("PATH", format!("{}:{path}", programs.display()))
            .current_dir(dir);
        command
    }

    fn run(&self, block: &Block<'_>) -> String {
        let text = self.substitute(block.text);
        let dir = self.dir.path();
        let (mut command, input) = match block.language {
            "sh" => (self.program("sh".as_ref(), dir), format!("{}\n{text}", self.variables)),
            // Python flushes its queue at exit.
            "python" => (self.program(&test_deps().join("venv/bin/python"), dir), text),
            "mjs" => {
                let mut node = self.program("node".as_ref(), &test_deps());
                node.arg("--input-type=module");
                (node, text)
            }
            "html" => (self.browser("snippet", &text), String::new()),
            "js" => {
                let map =
                    r#"<script type="importmap">{"imports":{"posthog-js":"/posthog.js"}}</script>"#;
                let script = format!("{text}\nwindow.posthog = posthog");
                let page = format!("{map}<script type=\"module\">{script}</script>");
                (self.browser("posthog-js", &page), String::new())
            }
            "rust" => {
                let file = dir.join("readme.rs").display().to_string();
                fs::write(&file, format!("{{\n{text}}}\n")).unwrap();
                let built = build_rust(&["--example", "readme"], &[("HEDGEROW_README", &file)]);
                (self.program(&built.join("examples/readme"), dir), String::new())
            }
            other => panic!("nobody runs {other}"),
        };
        if block.language == "sh" {
            command.args(["-e", "-u"]);
        }
        let output = fed(command, &input);
        let (printed, logged) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{printed}\n{logged}", block.text);
        printed
    }

    /// Opens an HTML page in a browser.
    fn browser(&self, sdk: &str, body: &str) -> Command {
        let file = self.dir.path().join("page.html");
        let icon = "<link rel=\"icon\" href=\"data:,\">";
        fs::write(&file, format!("<!doctype html><title>Shop</title>{icon}{body}")).unwrap();
        let mut node = self.program("node".as_ref(), &test_deps());
        node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../compat/browser.mjs"));
        node.arg(format!("http://{}", self.address)).args(["show", sdk]).arg(file);
        node
    }
}

fn fed(mut command: Command, input: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|why| {
        panic!("{why}: tools/install-test-deps brings what the README uses");
    });
    // A program that reads no input may have exited.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn readme_blocks_run_as_documented() {
    // A fixed port, so that a restart keeps the address.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_LISTEN", &free.to_string());
    let environment = instance.environment.clone();
    let mut server = instance.serve();
    if server.call("GET", "/static/array.js").no_key().send().status != 200 {
        assert!(std::env::var_os("CI").is_none(), "tools/fetch-assets was not run");
        println!("skipped: no script under /static (tools/fetch-assets brings it)");
        return;
    }
    let (dir, address, variables) = (tempfile::tempdir().unwrap(), server.address(), String::new());
    for key in ["posthog.key", "hedgerow.key"] {
        fs::write(dir.path().join(key), PERSONAL_KEY).unwrap();
    }
    let mut shell = ReadmeShell { dir, address, environment, variables };
    let (mut languages, mut printed) = (Vec::new(), String::new());
    let here = |block: &&Block<'_>| block.remark != "builds" && !block.remark.contains(": ");
    for block in blocks().iter().filter(here) {
        languages.push(block.language);
        if shell.variables.is_empty() {
            shell.variables = shell.substitute(block.text);
        }
        if block.remark == "stopped" {
            if block.text.contains("hedgerow import") {
                let text = "hedgerow export --output events.jsonl && gzip events.jsonl";
                shell.run(&Block { language: "sh", remark: "", text });
            }
            let (status, output, instance) = server.stop();
            assert!(status.success(), "{output}");
            printed += &shell.run(block);
            server = instance.serve();
        } else {
            if block.text.contains("scan_parquet") {
                // Recent events may be in memory only.
                server = server.restart();
            }
            printed += &shell.run(block);
        }
        server.wait_until_applied();
    }
    for language in ["sh", "html", "js", "python", "mjs", "rust"] {
        assert!(languages.contains(&language), "{language}");
    }
    let events = server.get("/api/projects/1/events/?event=signed+up").expect(200).json();
    // One each of curl, two pages, Python, Node and Rust; the import created no duplicates.
    assert_eq!(events["results"].as_array().unwrap().len(), 6, "{events}");
    for part in [
        "\"status\":1",
        "new-checkout",
        "Growth",
        "signed up",
        "ready",
        "is intact",
        "nothing is to be repaired",
        ": 0 values differ",
    ] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    let chart = server.get("/api/projects/1/dashboards/1/?refresh=blocking").expect(200).json();
    let result = &chart["tiles"][0]["insight"]["result"][0];
    assert_eq!(result["label"], json!("signed up"), "{chart}");
    assert!(
        result["data"].as_array().unwrap().last().and_then(Value::as_f64) > Some(0.0),
        "{result}"
    );
}
