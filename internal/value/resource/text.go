package resource

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Errors of the amount parsers. Use errors.Is; the messages around them quote
// the text.
var (
	ErrEmpty      = errors.New("amount is empty")
	ErrSyntax     = errors.New("amount is not a number")
	ErrNegative   = errors.New("amount must not be negative")
	ErrNotFinite  = errors.New("amount must be finite")
	ErrTooLarge   = errors.New("amount is too large")
	ErrFractional = errors.New("amount must be a whole number")
	ErrUnit       = errors.New("wrong unit")
)

// ParseAmount reads what a person writes for kind k and returns storage units.
//
// A number is decimal digits with an optional point and exponent: 12, 1.5, 1e9.
//
//   - cpu is in cores and has no unit. It is rounded half away from zero to
//     hundredths.
//   - memory is in bytes, or has a unit: B; kB, MB, GB, TB, PB, EB and k, M, G,
//     T, P, E are powers of 1000; KiB … EiB and Ki … Ei are powers of 1024.
//     Case does not matter and a space before the unit is allowed. A fraction of
//     a unit is rounded to bytes; a fraction of a byte is an error.
//   - user_slots, gpu and network are whole numbers without a unit. There is no
//     1k, because it would read as 1000 in one place and 1024 in another; 1e3
//     is fine.
//
// The result is below Unlimited. Where "no limit" is a legal value, use
// ParseLimit.
func ParseAmount(k Kind, text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "-") {
		if _, err := parseUnsigned(k, trimmed[1:]); err == nil {
			return 0, amountError(k, text, ErrNegative)
		}
	}
	v, err := parseUnsigned(k, trimmed)
	if err != nil {
		return 0, amountError(k, text, err)
	}
	return v, nil
}

// ParseLimit is ParseAmount that also accepts "unlimited", "inf", "infinity" and "∞", for which it
// returns Unlimited.
func ParseLimit(k Kind, text string) (int64, error) {
	if isUnlimitedWord(strings.TrimSpace(text)) {
		return Unlimited, nil
	}
	return ParseAmount(k, text)
}

func isUnlimitedWord(word string) bool {
	switch strings.ToLower(word) {
	case "unlimited", "inf", "infinity", "∞":
		return true
	}
	return false
}

func amountError(k Kind, text string, err error) error {
	const longest = 40
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return fmt.Errorf("%v %q: %w", k, text, err)
}

// parseUnsigned reads a number with an optional unit. The text has no
// surrounding space.
func parseUnsigned(k Kind, text string) (int64, error) {
	if text == "" {
		return 0, ErrEmpty
	}
	if isUnlimitedWord(text) || strings.EqualFold(text, "nan") {
		return 0, ErrNotFinite
	}
	digits := numberLength(text)
	if digits == 0 {
		return 0, ErrSyntax
	}
	number, err := parseDecimal(text[:digits])
	if err != nil {
		return 0, err
	}
	unit := strings.TrimLeft(text[digits:], " ")
	factor, err := unitFactor(k, unit)
	if err != nil {
		return 0, err
	}
	return toStorage(k, number.Mul(number, factor), unit)
}

// numberLength returns the length of the longest prefix that is a number:
// digits, at most one point, an exponent. An "e" without digits after it is not
// part of the number, so that 1E is an exabyte and 1EiB an exbibyte.
func numberLength(text string) int {
	i, digits := 0, 0
	for i < len(text) && isDigit(text[i]) {
		i++
		digits++
	}
	if i < len(text) && text[i] == '.' {
		i++
		for i < len(text) && isDigit(text[i]) {
			i++
			digits++
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		first := j
		for j < len(text) && isDigit(text[j]) {
			j++
		}
		if j > first {
			i = j
		}
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseDecimal is exact, unlike a float64: 0.005 is five thousandths. The
// bounds on length and exponent keep the cost of hostile text small.
func parseDecimal(text string) (*big.Rat, error) {
	const (
		longest         = 400
		largestExponent = 400
	)
	if len(text) > longest {
		return nil, ErrTooLarge
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(text[i+1:])
		switch {
		case strings.Trim(text[:i], "0.") == "":
			return new(big.Rat), nil
		case err != nil && text[i+1] != '-', exponent > largestExponent:
			return nil, ErrTooLarge
		case err != nil, exponent < -largestExponent:
			return nil, ErrFractional
		}
	}
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, ErrSyntax
	}
	return number, nil
}

// memoryUnits are written in lower case; see unitFactor.
var memoryUnits = [...]struct {
	letter  byte
	decimal int64
	binary  int64
}{
	{'k', 1e3, 1 << 10},
	{'m', 1e6, 1 << 20},
	{'g', 1e9, 1 << 30},
	{'t', 1e12, 1 << 40},
	{'p', 1e15, 1 << 50},
	{'e', 1e18, 1 << 60},
}

// unitFactor returns the number of bytes, cores or slots in one unit.
func unitFactor(k Kind, unit string) (*big.Rat, error) {
	one := big.NewRat(1, 1)
	if unit == "" {
		return one, nil
	}
	if k != Memory {
		if k == CPU && unit == "m" {
			return nil, fmt.Errorf("%w %q: cpu is written in cores, 0.5 and not 500m", ErrUnit, unit)
		}
		if isWord(unit) {
			return nil, fmt.Errorf("%w %q: %v has no units", ErrUnit, unit, k)
		}
		return nil, ErrSyntax
	}
	lower := strings.ToLower(unit)
	if lower == "b" {
		return one, nil
	}
	for _, u := range memoryUnits {
		if lower[0] != u.letter {
			continue
		}
		switch lower[1:] {
		case "", "b":
			return new(big.Rat).SetInt64(u.decimal), nil
		case "i", "ib":
			return new(big.Rat).SetInt64(u.binary), nil
		}
	}
	if isWord(unit) {
		return nil, fmt.Errorf("%w %q: memory units are B, kB, MB, GB, TB, PB, EB and KiB, MiB, GiB, TiB, PiB, EiB", ErrUnit, unit)
	}
	return nil, ErrSyntax
}

func isWord(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// toStorage rounds an exact quantity to storage units of kind k, or returns why it cannot.
func toStorage(k Kind, quantity *big.Rat, unit string) (int64, error) {
	quantity.Mul(quantity, new(big.Rat).SetInt64(k.Scale()))
	rounded := roundHalfUp(quantity)
	if !rounded.IsInt64() || rounded.Int64() >= Unlimited {
		return 0, ErrTooLarge
	}
	if quantity.IsInt() || k == CPU {
		return rounded.Int64(), nil
	}
	switch {
	case k != Memory:
		return 0, ErrFractional
	case unit == "" || strings.EqualFold(unit, "b") || quantity.Cmp(big.NewRat(1, 1)) < 0:
		return 0, fmt.Errorf("%w of bytes", ErrFractional)
	}
	return rounded.Int64(), nil
}

// roundHalfUp rounds a non-negative quantity, which is the same as half away
// from zero.
func roundHalfUp(quantity *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(quantity.Num(), 1)
	twice.Add(twice, quantity.Denom())
	return twice.Quo(twice, new(big.Int).Lsh(quantity.Denom(), 1))
}
