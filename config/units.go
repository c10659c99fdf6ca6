package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// The units of a Size.
const (
	KB  Size = 1000
	MB       = 1000 * KB
	GB       = 1000 * MB
	KiB Size = 1024
	MiB      = 1024 * KiB
	GiB      = 1024 * MiB
)

var (
	errSize     = errors.New("is not a size: write a whole number and a unit, like 512B, 64KB, 8KiB, 32MiB or 1GiB")
	errSizeUnit = errors.New("has no unit: write B, KB, KiB, MB, MiB, GB or GiB behind the number, like 32MiB")
	errDuration = errors.New("is not a duration: write a number and a unit, like 500ms, 30s, 10m, 24h or 7d")
	errDurUnit  = errors.New("has no unit: write ms, s, m, h or d behind the number, like 30s")
	errTooLarge = errors.New("is too large: write a smaller number")
)

// sizeUnits has every unit before those that are its endings.
var sizeUnits = []struct {
	name string
	size Size
}{
	{"KiB", KiB}, {"MiB", MiB}, {"GiB", GiB}, {"KB", KB}, {"MB", MB}, {"GB", GB}, {"B", 1},
}

// ParseSize reads a size like 512B, 64KB, 8KiB, 32MiB or 1GiB. KB, MB and GB
// are powers of 1000, KiB, MiB and GiB of 1024.
func ParseSize(text string) (Size, error) {
	for _, unit := range sizeUnits {
		if digits, ok := strings.CutSuffix(text, unit.name); ok {
			return multiply(digits, unit.size)
		}
	}
	if isDigits(text) {
		return 0, errSizeUnit
	}
	return 0, errSize
}

// String returns the size in the largest unit of which it is a whole multiple,
// in a form that ParseSize reads.
func (s Size) String() string {
	best := sizeUnits[len(sizeUnits)-1]
	for _, unit := range sizeUnits {
		if s != 0 && s%unit.size == 0 && unit.size > best.size {
			best = unit
		}
	}
	return fmt.Sprintf("%d%s", int64(s/best.size), best.name)
}

// MarshalText returns what String returns.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func multiply(digits string, unit Size) (Size, error) {
	if !isDigits(digits) {
		return 0, errSize
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, errTooLarge
	}
	return Size(n) * unit, nil
}

// ParseDuration reads what time.ParseDuration reads, and days: 7d, 1d12h. It
// wants a unit even with zero.
func ParseDuration(text string) (time.Duration, error) {
	if isDigits(text) {
		return 0, errDurUnit
	}
	if text == "" {
		return 0, errDuration
	}
	days, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		days, rest = "0", text
	}
	n, err := parseDays(days)
	if err != nil || rest == "" {
		return n, err
	}
	// A sign behind the days would make 1d-2h mean something.
	if hasDays && !isDigits(rest[:1]) {
		return 0, errDuration
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, errDuration
	}
	if d > math.MaxInt64-n {
		return 0, errTooLarge
	}
	return n + d, nil
}

func parseDays(digits string) (time.Duration, error) {
	const day = 24 * time.Hour
	if !isDigits(digits) {
		return 0, errDuration
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(day) {
		return 0, errTooLarge
	}
	return time.Duration(n) * day, nil
}

// FormatDuration returns the duration in a form that ParseDuration reads, in
// the largest unit of which it is a whole multiple: 10m rather than 10m0s.
func FormatDuration(d time.Duration) string {
	units := []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}
	for _, u := range units {
		if d > 0 && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return d.String()
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
