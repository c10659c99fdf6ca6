package devicecode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"mete/auth/redistest"
)

func TestTypedCodesAreReadAsPeopleTypeThem(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	code := r.begin().UserCode
	for _, typed := range []string{code, strings.ToLower(code), " " + strings.ToLower(strings.ReplaceAll(code, "-", "")), code[:2] + " " + code[2:] + "\n", strings.ReplaceAll(code, "-", "\u2011")} {
		if _, err := r.LookUp(t.Context(), r.visitor(), typed); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	}
}

// Unknown, decided, used and expired codes must be told apart by neither text
// nor time: the same answer after the same calls to Redis.
func TestCodesThatDoNotWaitAreAllAlike(t *testing.T) {
	rdb := redistest.Embedded(t)
	r := newRig(t, rdb)
	codes := map[string]string{"unknown": "BBBB-BBBB", "malformed": "hello", "empty": ""}
	for _, name := range []string{"approved", "denied", "used", "expired"} {
		code := r.begin()
		codes[name] = code.UserCode
		switch name {
		case "approved":
			r.approve(code)
		case "denied":
			_, _ = r.Deny(t.Context(), r.visitor(), code.UserCode)
		case "used":
			r.approve(code)
			r.pollJSON(code.DeviceCode)
		case "expired":
			r.expire(code.DeviceCode)
		}
	}
	counter := &countCommands{}
	rdb.AddHook(counter)
	i := 0
	for name, typed := range codes {
		i++
		counter.names = nil
		v := Visitor{Owner: fmt.Sprint("p", i), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}
		_, err := r.LookUp(t.Context(), v, typed)
		if err != ErrWrongCode || fmt.Sprint(counter.names) != "[evalsha evalsha evalsha]" {
			t.Errorf("%s: %v after %v", name, err, counter.names)
		}
	}
}

type countCommands struct{ names []string }

func (c *countCommands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *countCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.names = append(c.names, cmd.Name())
		return next(ctx, cmd)
	}
}

func (c *countCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.names = append(c.names, "pipeline")
		return next(ctx, cmds)
	}
}

func TestFiveWrongCodesForEachPersonAndAddress(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb)
		code := r.begin()
		wrong := func(v Visitor) error {
			_, err := r.LookUp(t.Context(), v, "BBBB-BBBB")
			return err
		}
		for range 4 {
			if err := wrong(r.visitor()); err != ErrWrongCode {
				t.Fatal(err)
			}
		}
		// A right code neither counts nor resets.
		if _, err := r.LookUp(t.Context(), r.visitor(), code.UserCode); err != nil {
			t.Fatal(err)
		}
		if err := wrong(r.visitor()); err != ErrWrongCode {
			t.Fatal(err)
		}
		var many *TooMany
		for name, v := range map[string]Visitor{
			"the same person elsewhere":          {Owner: "ann@example.com", Address: netip.MustParseAddr("198.51.100.1")},
			"another person at the same address": {Owner: "bob", Address: home},
			"the same, by IPv6 for IPv4":         {Owner: "cat", Address: netip.MustParseAddr("::ffff:192.0.2.7")},
		} {
			if err := wrong(v); !errors.As(err, &many) || many.Wait <= 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.Approve(t.Context(), r.visitor(), code.UserCode, "free"); !errors.As(err, &many) {
			t.Errorf("a right code was looked at after too many wrong ones: %v", err)
		}
	})
}

func TestAnIPv6NetworkCountsAsOneAddress(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	seen := 0
	for i := range 10 {
		v := Visitor{Owner: fmt.Sprint("p", i), Address: netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))}
		if _, err := r.LookUp(t.Context(), v, "BBBB-BBBB"); err == ErrWrongCode {
			seen++
		}
	}
	if seen != wrongEach {
		t.Fatalf("%d guesses of one /64 were looked at", seen)
	}
}

// 10,000 guesses at once from 100 addresses by 100 people, on 3 gateways.
func TestAFloodOfGuessesIsNotLookedAt(t *testing.T) {
	server := redistest.Start(t)
	gateways := []*rig{newRig(t, server.Client()), newRig(t, server.Client()), newRig(t, server.Client())}
	code := gateways[0].begin().UserCode
	var looked, refused atomic.Int64
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := worker; i < 10000; i += 16 {
				v := Visitor{Owner: fmt.Sprint("p", i%100), Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(i % 100)})}
				_, err := gateways[i%3].LookUp(context.Background(), v, "BBBB-BBBB")
				var many *TooMany
				switch {
				case err == ErrWrongCode:
					looked.Add(1)
				case errors.As(err, &many):
					refused.Add(1)
				default:
					t.Errorf("guess %d of %s: %v", i, code, err)
				}
			}
		})
	}
	wait.Wait()
	all := math.Pow(float64(len(letters)), userLetters)
	t.Logf("of 10000 guesses %d were looked at, %d were not; with 1000 codes waiting, 10 minutes at 100 a minute find one with probability %.1e, and 10000 guesses without a cap with %.1e",
		looked.Load(), refused.Load(), 1000*1000/all, 10000*1000/all)
	// A run that takes over a minute may see the next hundred.
	if looked.Load() < wrongAll || looked.Load() > 500 || looked.Load()%wrongAll != 0 {
		t.Fatalf("%d guesses were looked at", looked.Load())
	}
}

func TestStartsAreCapped(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := newRig(t, rdb)
		for range 20 {
			r.begin()
		}
		if got := r.Code(t.Context(), Request{Address: home}); got.Status != 429 || got.Header["Retry-After"] == "" {
			t.Fatalf("the 21st start of an address: %d %s", got.Status, got.Body)
		}
		r.Pending = 21
		other := netip.MustParseAddr("198.51.100.1")
		if got := r.Code(t.Context(), Request{Address: other}); got.Status != 200 {
			t.Fatalf("another address: %d %s", got.Status, got.Body)
		}
		if got := r.Code(t.Context(), Request{Address: other}); got.Status != 429 {
			t.Fatalf("the 22nd undecided code: %d %s", got.Status, got.Body)
		}
	})
}

func TestPollsAreCappedOnEachGateway(t *testing.T) {
	r := newRig(t, redistest.Embedded(t))
	r.polls = newThrottle(1000000, 3)
	code := r.begin()
	refused := 0
	for range 50 { // at most two seconds' worth pass, however slow the machine
		got := r.pollForm(code.DeviceCode)
		if got.Status == 429 && strings.Contains(string(got.Body), "slow_down") {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("no poll was refused")
	}
}
