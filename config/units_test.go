package config

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "512B": 512, "64KB": 64000, "8KiB": 8192, "3MB": 3e6, "32MiB": 32 << 20,
		"2GB": 2e9, "1GiB": 1 << 30, "9223372036854775807B": 1<<63 - 1,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]error{
		"": errSize, "B": errSize, "1.5MiB": errSize, "-1KB": errSize, "1 KB": errSize, "1kb": errSize,
		"1TiB": errSize, "+1B": errSize, "1e3B": errSize, "1024": errSizeUnit, "0": errSizeUnit,
		"9223372036854775808B": errTooLarge, "9999999999GiB": errTooLarge,
	} {
		if _, err := ParseSize(text); !errors.Is(err, want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestSizeIsPrintedAsItIsWritten(t *testing.T) {
	sizes := []Size{0, 1, 1500, 64000, 1 << 10, 32 << 20, 3 << 30, 2e9}
	text, err := json.Marshal(sizes)
	if want := `["0B","1B","1500B","64KB","1KiB","32MiB","3GiB","2GB"]`; string(text) != want || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestParseDuration(t *testing.T) {
	const d = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "10m": 10 * time.Minute, "24h": d,
		"7d": 7 * d, "1d12h": 36 * time.Hour, "1.5s": 1500 * time.Millisecond, "0s": 0, "-1s": -time.Second,
		"0d": 0, "106751d": 106751 * d,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]error{
		"": errDuration, "d": errDuration, "soon": errDuration, "1d-2h": errDuration, "1d+2h": errDuration,
		"-1d": errDuration, "1.5d": errDuration, "1d1d": errDuration, "1d2": errDuration, "1 s": errDuration,
		"60": errDurUnit, "0": errDurUnit, "106752d": errTooLarge, "106751d24h": errTooLarge,
	} {
		if got, err := ParseDuration(text); !errors.Is(err, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestFormatDurationTakesTheLargestUnit(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, "36h": 36 * time.Hour, "90m": 90 * time.Minute, "330s": 330 * time.Second,
		"1500ms": 1500 * time.Millisecond, "0s": 0, "-1s": -time.Second, "1.5µs": 1500,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"1B", "64KB", "32MiB", "1GiB", "9223372036854775807B", "1024", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			return
		}
		if again, err := ParseSize(size.String()); again != size || err != nil {
			t.Errorf("%q is %d, printed %s, read back %d, %v", text, size, size, again, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"500ms", "30s", "7d", "1d12h", "1d-2h", "106751d24h", "-1s", "60", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(FormatDuration(d)); again != d || err != nil {
			t.Errorf("%q is %v, printed %s, read back %v, %v", text, d, FormatDuration(d), again, err)
		}
		if want, err := time.ParseDuration(text); err == nil && want != d {
			t.Errorf("%q is %v, but %v to package time", text, d, want)
		}
	})
}
