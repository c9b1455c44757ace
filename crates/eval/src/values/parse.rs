//! Parses numbers and booleans.

/// An integer of `bits`: an optional sign and digits. None if it is out of range.
pub(crate) fn integer(text: &str, signed: bool, bits: u8) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i128 = text.parse().ok()?;
    let bits = u32::from(bits);
    let range = if signed {
        -(1i128 << (bits - 1))..=(1i128 << (bits - 1)) - 1
    } else {
        0..=(1i128 << bits) - 1
    };
    // `UInt64` values above `i64::MAX` keep their bit pattern.
    range.contains(&number).then_some(number as i64)
}

pub(crate) fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let word = ["inf", "infinity", "nan"].iter().any(|word| digits.eq_ignore_ascii_case(word));
    // Rust accepts the same words and number syntax.
    let begins = digits.starts_with(|one: char| one.is_ascii_digit() || one == '.');
    if word || begins { text.parse().ok() } else { None }
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["true", "1", "t", "y", "yes", "on", "enable", "enabled"]) {
        Some(true)
    } else if is(&["false", "0", "f", "n", "no", "off", "disable", "disabled"]) {
        Some(false)
    } else {
        None
    }
}

/// A decimal; digits beyond the scale are truncated.
pub(crate) fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.contains(['e', 'E']) {
        return from_float(float(text)?, scale);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !all || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let scale = usize::from(scale);
    let padded: String = fraction.chars().chain(std::iter::repeat('0')).take(scale).collect();
    let number: i128 = format!("0{whole}{padded}").parse().ok()?;
    in_bounds(if negative { -number } else { number })
}

pub(crate) fn from_float(value: f64, scale: u8) -> Option<i128> {
    let scaled = (value * 10f64.powi(i32::from(scale))).trunc();
    if scaled.is_finite() && scaled.abs() < 1e38 { in_bounds(scaled as i128) } else { None }
}

pub(crate) fn in_bounds(value: i128) -> Option<i128> {
    (value.unsigned_abs() < 10u128.pow(38)).then_some(value)
}
