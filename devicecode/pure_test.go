package devicecode

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens in whatever order, a code is redeemed after an approval,
// within its life, and never after it was used or denied.
func TestMachineUnderAnySequenceOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.UnixMilli(1_700_000_000_000)
		m := Machine{State: Pending, Asked: Asked{Started: start}, Expires: start.Add(10 * time.Minute), Interval: 5 * time.Second}
		now, approved, ended := start, false, false
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * time.Millisecond)
			late, interval := !now.Before(m.Expires), m.Interval
			switch rapid.SampledFrom([]string{"poll", "poll", "approve", "deny"}).Draw(t, "event") {
			case "poll":
				outcome := m.Poll(now)
				if redeem := outcome == Redeem; redeem != (approved && !ended && !late) {
					t.Fatalf("poll gave %s: approved %v, ended %v, late %v", outcome, approved, ended, late)
				}
				if outcome == Redeem {
					m.Redeemed(true)
					ended = true
				}
			case "approve":
				if (m.Approve(now, Approval{Owner: "ann"}) == nil) != (!approved && !ended && !late) {
					t.Fatal("approved what was decided or late")
				}
				approved = approved || m.State == Approved
			case "deny":
				if m.Deny(now) == nil {
					if approved || ended || late {
						t.Fatal("denied what was decided or late")
					}
					ended = true
				}
			}
			if m.Interval < interval || m.Interval > maxInterval {
				t.Fatalf("the interval went from %v to %v", interval, m.Interval)
			}
		}
	})
}

func TestNewCodesHaveTheirShape(t *testing.T) {
	seen := map[string]bool{}
	counts := map[rune]int{}
	for range 2000 {
		user, err := newUserCode()
		device, err2 := newDeviceCode()
		if err != nil || err2 != nil || !isDeviceCode(device) || seen[user] || seen[device] {
			t.Fatalf("%q, %q", user, device)
		}
		if normal, ok := Normalise(Show(user)); !ok || normal != user || len(Show(user)) != 9 {
			t.Fatalf("%q is shown as %q", user, Show(user))
		}
		seen[user], seen[device] = true, true
		for _, letter := range user {
			counts[letter]++
		}
	}
	for _, letter := range letters { // 800 of each are expected
		if counts[letter] < 600 || counts[letter] > 1000 {
			t.Errorf("%c came %d times", letter, counts[letter])
		}
	}
}

func TestWhatIsNoUserCode(t *testing.T) {
	for _, typed := range []string{"", "BCDF", "BCDFGHJKL", "ACDF-GHJK", "BCDF-GHJ1", "BCDF_GHJK", "BCDFGHJ\u00dc", "\x00BCDFGHJ"} {
		if code, ok := Normalise(typed); ok {
			t.Errorf("%q was read as %q", typed, code)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{" wdjb mjht", "BCDF-GHJK", "", "----", "\u2011\u00a0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := Normalise(typed)
		if !ok {
			return
		}
		if again, ok := Normalise(Show(code)); !ok || again != code || len(code) != userLetters {
			t.Fatalf("%q gave %q", typed, code)
		}
	})
}

func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{`{"device_code":"x"}`, `{}`, `null`, `{"scope":null,"x":[1]}`, `{"device_code":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fields, err := readJSON(body)
		if err != nil {
			return
		}
		var plain map[string]any
		if json.Unmarshal(body, &plain) != nil {
			t.Fatalf("%q is no JSON object", body)
		}
		for name, value := range fields {
			if plain[name] != value {
				t.Fatalf("%q: %s is %v, not %q", body, name, plain[name], value)
			}
		}
	})
}

func FuzzReadForm(f *testing.F) {
	for _, seed := range []string{"device_code=x&grant_type=y", "", "scope=a+b", "a=%zz", "scope=1&scope=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fields, err := readForm(body)
		if err != nil {
			return
		}
		values, _ := url.ParseQuery(body)
		for _, name := range known {
			if values.Get(name) != fields[name] || len(values[name]) > 1 {
				t.Fatalf("%q: %s is %q", body, name, fields[name])
			}
		}
	})
}

func BenchmarkPollOfAMachine(b *testing.B) {
	now := time.Now()
	m := Machine{State: Pending, Expires: now.Add(time.Hour), Interval: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		m.Expires = now.Add(time.Hour)
		m.Poll(now)
	}
}
