//! Bots and other automation, by their user agent.
//!
//! The list is short and our own: the agents that their operators document and that send most of the
//! automated traffic. A name that is not in it but calls itself a bot counts as one without a name.

use std::sync::LazyLock;

use hogql::types::Kind;
use memchr::memmem;

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::Result;

struct Agent {
    /// A part of the user agent, in lower case.
    part: &'static str,
    name: &'static str,
    category: &'static str,
    operator: &'static str,
}

const fn agent(
    part: &'static str,
    name: &'static str,
    category: &'static str,
    operator: &'static str,
) -> Agent {
    Agent { part, name, category, operator }
}

/// The first that occurs in a user agent counts: special names stand before general ones.
const AGENTS: &[Agent] = &[
    agent("gptbot", "GPTBot", "ai_crawler", "OpenAI"),
    agent("oai-searchbot", "OpenAI Search", "ai_search", "OpenAI"),
    agent("chatgpt-user", "ChatGPT", "ai_assistant", "OpenAI"),
    agent("claudebot", "Claude", "ai_crawler", "Anthropic"),
    agent("claude-searchbot", "Claude Search", "ai_search", "Anthropic"),
    agent("claude-user", "Claude User", "ai_assistant", "Anthropic"),
    agent("claude-web", "Claude Web", "ai_crawler", "Anthropic"),
    agent("anthropic-ai", "Anthropic", "ai_crawler", "Anthropic"),
    agent("perplexity-user", "Perplexity User", "ai_assistant", "Perplexity"),
    agent("perplexitybot", "Perplexity", "ai_search", "Perplexity"),
    agent("google-extended", "Google AI", "ai_crawler", "Google"),
    agent("googleother", "GoogleOther", "ai_crawler", "Google"),
    agent("applebot-extended", "Apple AI", "ai_search", "Apple"),
    agent("ccbot", "Common Crawl", "ai_crawler", "Common Crawl"),
    agent("bytespider", "ByteDance", "ai_crawler", "ByteDance"),
    agent("amazonbot", "Amazon", "ai_crawler", "Amazon"),
    agent("meta-externalagent", "Meta AI", "ai_crawler", "Meta"),
    agent("meta-externalfetcher", "Meta Fetcher", "ai_assistant", "Meta"),
    agent("cohere-ai", "Cohere", "ai_crawler", "Cohere"),
    agent("mistralai-user", "Mistral AI", "ai_assistant", "Mistral"),
    agent("duckassistbot", "DuckDuckGo AI", "ai_assistant", "DuckDuckGo"),
    agent("diffbot", "Diffbot", "ai_crawler", "Diffbot"),
    agent("petalbot", "Petal", "ai_crawler", "Huawei"),
    agent("applebot", "Applebot", "ai_search", "Apple"),
    agent("adsbot-google", "Google Ads", "search_crawler", "Google"),
    agent("google-inspectiontool", "Google Inspection", "search_crawler", "Google"),
    agent("googlebot", "Googlebot", "search_crawler", "Google"),
    agent("bingbot", "Bingbot", "search_crawler", "Microsoft"),
    agent("yandexbot", "Yandex", "search_crawler", "Yandex"),
    agent("baiduspider", "Baidu", "search_crawler", "Baidu"),
    agent("duckduckbot", "DuckDuckGo", "search_crawler", "DuckDuckGo"),
    agent("slurp", "Yahoo", "search_crawler", "Yahoo"),
    agent("sogou", "Sogou", "search_crawler", "Sogou"),
    agent("ahrefs", "Ahrefs", "seo_crawler", "Ahrefs"),
    agent("semrush", "Semrush", "seo_crawler", "Semrush"),
    agent("mj12bot", "Majestic", "seo_crawler", "Majestic"),
    agent("dotbot", "Moz", "seo_crawler", "Moz"),
    agent("screaming frog", "Screaming Frog", "seo_crawler", "Screaming Frog"),
    agent("chrome-lighthouse", "Lighthouse", "seo_crawler", "Google"),
    agent("facebookexternalhit", "Facebook", "social_crawler", "Meta"),
    agent("facebookbot", "Facebook Bot", "social_crawler", "Meta"),
    agent("twitterbot", "Twitter", "social_crawler", "X"),
    agent("linkedinbot", "LinkedIn", "social_crawler", "LinkedIn"),
    agent("pinterestbot", "Pinterest", "social_crawler", "Pinterest"),
    agent("slackbot", "Slack", "social_crawler", "Salesforce"),
    agent("telegrambot", "Telegram", "social_crawler", "Telegram"),
    agent("discordbot", "Discord", "social_crawler", "Discord"),
    agent("whatsapp", "WhatsApp", "social_crawler", "Meta"),
    agent("pingdom", "Pingdom", "monitoring", "SolarWinds"),
    agent("uptimerobot", "UptimeRobot", "monitoring", "UptimeRobot"),
    agent("statuscake", "StatusCake", "monitoring", "StatusCake"),
    agent("datadog", "Datadog", "monitoring", "Datadog"),
    agent("headlesschrome", "Headless Chrome", "headless_browser", "Google"),
    agent("phantomjs", "PhantomJS", "headless_browser", "PhantomJS"),
    agent("puppeteer", "Puppeteer", "headless_browser", "Google"),
    agent("playwright", "Playwright", "headless_browser", "Microsoft"),
    agent("selenium", "Selenium", "headless_browser", "Selenium"),
    agent("curl/", "curl", "http_client", "curl"),
    agent("wget/", "Wget", "http_client", "GNU"),
    agent("python-requests", "Python Requests", "http_client", "Python"),
    agent("python-urllib", "Python urllib", "http_client", "Python"),
    agent("aiohttp", "aiohttp", "http_client", "Python"),
    agent("python-httpx", "HTTPX", "http_client", "Python"),
    agent("go-http-client", "Go HTTP client", "http_client", "Go"),
    agent("okhttp", "OkHttp", "http_client", "Square"),
    agent("axios/", "Axios", "http_client", "Axios"),
    agent("node-fetch", "node-fetch", "http_client", "Node.js"),
    agent("postmanruntime", "Postman", "http_client", "Postman"),
    agent("apache-httpclient", "Apache HttpClient", "http_client", "Apache"),
    agent("scrapy", "Scrapy", "http_client", "Scrapy"),
    // What calls itself a bot.
    agent("crawler", "", "search_crawler", ""),
    agent("spider", "", "search_crawler", ""),
    agent("bot/", "", "search_crawler", ""),
    agent("bot;", "", "search_crawler", ""),
];

static FINDERS: LazyLock<Vec<memmem::Finder<'static>>> =
    LazyLock::new(|| AGENTS.iter().map(|agent| memmem::Finder::new(agent.part)).collect());

/// Longer user agents are cut: each part is searched in them.
const AGENT_BYTES_MAX: usize = 4_096;

enum Traffic {
    Missing,
    Known(&'static Agent),
    Regular,
}

impl Traffic {
    fn of(agent: Option<&str>) -> Self {
        let text = agent.unwrap_or("");
        if text.is_empty() {
            return Self::Missing;
        }
        let end = (0..=AGENT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let lower = text[..end.unwrap_or(0)].to_ascii_lowercase();
        let known = FINDERS.iter().position(|finder| finder.find(lower.as_bytes()).is_some());
        known.map_or(Self::Regular, |no| Self::Known(&AGENTS[no]))
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Missing => "no_user_agent",
            Self::Known(agent) => agent.category,
            Self::Regular => "",
        }
    }

    fn label(&self, function: &str) -> &'static str {
        match (function, self) {
            ("getBotType", traffic) => traffic.category(),
            ("getTrafficCategory", Self::Regular) => "regular",
            ("getTrafficCategory", traffic) => traffic.category(),
            ("getBotName", Self::Known(agent)) => agent.name,
            ("getBotOperator", Self::Known(agent)) => agent.operator,
            ("getTrafficType", Self::Regular) => "Regular",
            ("getTrafficType", traffic) => match traffic.category() {
                "ai_crawler" | "ai_search" | "ai_assistant" => "AI Agent",
                "http_client" | "headless_browser" | "no_user_agent" => "Automation",
                _ => "Bot",
            },
            _ => "",
        }
    }
}

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let (name, span) = (site.name, site.span);
    let is_bot = name == "isLikelyBot";
    if !is_bot
        && !matches!(
            name,
            "getTrafficType"
                | "getTrafficCategory"
                | "getBotType"
                | "getBotName"
                | "getBotOperator"
        )
    {
        return Ok(None);
    }
    site.args.truncate(1);
    site.cast(0, &Kind::String)?;
    if is_bot {
        return Ok(Some(predicate(move |args| {
            let strings = args.strings(0);
            Ok(args.map_bools(|row| {
                let agent = (!args.is_null(0, row)).then(|| strings.at(row));
                !matches!(Traffic::of(agent), Traffic::Regular)
            }))
        })));
    }
    Ok(Some(call(move |args| {
        let strings = args.strings(0);
        args.map_strings(span, |row, out| {
            let agent = (!args.is_null(0, row)).then(|| strings.at(row));
            out.push_str(Traffic::of(agent).label(name));
        })
    })))
}
