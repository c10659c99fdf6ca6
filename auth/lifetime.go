package auth

import (
	"errors"
	"strings"
	"time"
)

var errLifetime = errors.New(`must be a duration such as "90d", "36h" or "1d12h", of ten years at most`)

// ParseLifetime reads a duration in whole weeks (w), days (d), hours, minutes
// and seconds, each at most once and the largest first: "90d", "1d12h". A day
// has 24 hours. No part may exceed MaxLifetime, so that the sum cannot overflow.
func ParseLifetime(text string) (time.Duration, error) {
	var total time.Duration
	units := "wdhms"
	for rest := text; ; {
		n, unit, after, err := leadingPart(rest)
		if err != nil {
			return 0, err
		}
		at := strings.IndexByte(units, unit)
		if at < 0 || n > int64(MaxLifetime/unitLength(unit)) {
			return 0, errLifetime
		}
		units = units[at+1:]
		total += time.Duration(n) * unitLength(unit)
		if rest = after; rest == "" {
			return total, nil
		}
	}
}

// leadingPart splits "12h30m" into 12, 'h' and "30m".
func leadingPart(text string) (n int64, unit byte, rest string, err error) {
	i := 0
	for i < len(text) && '0' <= text[i] && text[i] <= '9' {
		n = n*10 + int64(text[i]-'0')
		if i++; i > 9 {
			return 0, 0, "", errLifetime
		}
	}
	if i == 0 || i == len(text) {
		return 0, 0, "", errLifetime
	}
	return n, text[i], text[i+1:], nil
}

func unitLength(unit byte) time.Duration {
	switch unit {
	case 'w':
		return 7 * 24 * time.Hour
	case 'd':
		return 24 * time.Hour
	case 'h':
		return time.Hour
	case 'm':
		return time.Minute
	}
	return time.Second
}
