package auth

import (
	"testing"
	"time"
)

func TestParseLifetime(t *testing.T) {
	for _, row := range []struct {
		text string
		want time.Duration // 0: refused
	}{
		{"90d", 90 * 24 * time.Hour},
		{"2w", 14 * 24 * time.Hour},
		{"1d12h", 36 * time.Hour},
		{"1h2m3s", time.Hour + 2*time.Minute + 3*time.Second},
		{"86400s", 24 * time.Hour},
		{"3650d", MaxLifetime},
		{"3651d", 0},
		{"", 0},
		{"90", 0},
		{"d", 0},
		{"-1d", 0},
		{"1.5d", 0},
		{"12h1d", 0},
		{"1d1d", 0},
		{"1d ", 0},
		{"1y", 0},
		{"9999999999s", 0},
		{"999999999w999999999d", 0},
	} {
		got, err := ParseLifetime(row.text)
		if got != row.want || (err == nil) != (row.want != 0) {
			t.Errorf("%q gave %v, %v", row.text, got, err)
		}
	}
	if got, err := ParseLifetime("0s"); got != 0 || err != nil {
		t.Errorf("0s gave %v, %v", got, err)
	}
}

func FuzzParseLifetime(f *testing.F) {
	for _, seed := range []string{"90d", "1d12h", "2w3d4h5m6s", "999999999w", "0s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseLifetime(text); got < 0 || got > 5*MaxLifetime || err != nil && got != 0 {
			t.Fatalf("%q gave %v, %v", text, got, err)
		}
	})
}
