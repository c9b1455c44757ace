use std::path::PathBuf;

/// Where `tools/install-test-deps` puts the packages that tests run: the SDKs, ClickHouse, Python.
pub fn test_deps() -> PathBuf {
    let dir = std::env::var_os("HEDGEROW_TEST_DEPS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        cache.unwrap_or_else(home).join("hedgerow/test-deps")
    });
    assert!(dir.join("installed").exists(), "run tools/install-test-deps first");
    dir
}
