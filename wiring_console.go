package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"mete/auth"
	"mete/balancer"
	"mete/config"
	"mete/console"
	"mete/devicecode"
	"mete/limits"
)

// web is what people, rather than programs, reach: the console, and device
// login, which they approve there.
type web struct {
	*running
	console *console.Console
	devices *devicecode.Service // nil: device login is off
	pools   func() map[string]*balancer.Pool
	current func() *config.Config // plans and models of now
}

// newWeb makes the console that will be served on ln, and device login. pools
// and current are asked whenever a page needs them.
func newWeb(r *running, ln net.Listener, pools func() map[string]*balancer.Pool, current func() *config.Config) (*web, error) {
	w := &web{running: r, pools: pools, current: current}
	all, err := peppers(r.cfg())
	if err != nil {
		return nil, err
	}
	if all == nil || r.keys == nil {
		return nil, errors.New("console: keystore.peppers is needed")
	}
	url := cmp.Or(r.cfg().AuthURL, urlOf(ln, r.cfg().TLS.Console))
	if r.cfg().Device.Enabled {
		w.devices = w.newDevices(all.Sealer("device"), url+"/authorize")
	}
	w.console, err = w.newConsole(all.Sealer("console"), url)
	return w, err
}

// serve answers on ln until the gateway ends, and makes the first account.
func (w *web) serve(ln net.Listener, announce io.Writer) {
	server := w.newHTTPServer(w.console.Handler())
	w.goServe("console", func() error { return server.Serve(ln) })
	w.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { w.makeFirstAdmin(ctx, ln, announce) })
	w.onClose(func() { cancel(); wait.Wait() })
}

// makeFirstAdmin tries until the store can be asked. The password goes to
// announce and not to the log.
func (w *web) makeFirstAdmin(ctx context.Context, ln net.Listener, announce io.Writer) {
	for {
		password, err := w.console.FirstAdmin(ctx)
		if err == nil && password != "" {
			fmt.Fprintf(announce, "Console:    %s  name: %s  one-time password: %s\n",
				cmp.Or(w.cfg().AuthURL, urlOf(ln, w.cfg().TLS.Console)), console.FirstAdminName, password)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		w.log.Warn().Err(err).Msg("the console's first account cannot be made yet")
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// client is the address of whoever sent a request.
func (w *web) client(peer netip.Addr, forwardedFor string) netip.Addr {
	return config.NewProxies(w.current().TrustedProxies).Client(peer, forwardedFor)
}

func (w *web) newDevices(sealer *auth.Sealer, page string) *devicecode.Service {
	d := w.cfg().Device
	format := auth.NewFormat(w.cfg().Service)
	return devicecode.New(devicecode.Options{
		Redis: w.store, Service: w.cfg().Service, VerificationURI: page,
		CodeLife: d.CodeLife, Interval: d.Interval, KeyLife: d.KeyLife, Plans: d.Plans,
		Pending: d.Pending, StartsEach: d.StartsPerAddress, Polls: d.Polls, PollsEach: d.PollsPerAddress,
		Seal: sealer.Seal, Open: sealer.Open,
		PlanExists: func(plan string) bool { _, ok := w.current().Plan(plan); return ok },
		CheckName:  format.CheckName,
		Allowed:    w.allowed,
		Promise: func(ctx context.Context, a devicecode.Approval, life time.Duration) error {
			return w.keys.Promise(ctx, a.Owner, a.Ticket, life)
		},
		TearUp: func(ctx context.Context, a devicecode.Approval) {
			if err := w.keys.TearUp(ctx, a.Owner, a.Ticket); err != nil {
				w.log.Warn().Err(err).Msg("ticket of a device login was not torn up; it runs out by itself")
			}
		},
		Issue: w.issue, Audit: w.auditDevice,
	})
}

func (w *web) allowed(ctx context.Context, owner, plan string) error {
	err := w.console.Allowed(ctx, owner, plan)
	if errors.Is(err, console.ErrNotAllowed) {
		return devicecode.ErrNotAllowed
	}
	return err
}

func (w *web) issue(ctx context.Context, a devicecode.Approval) (devicecode.Issued, error) {
	plaintext, key, err := w.keys.Redeem(ctx, a.Ticket, auth.Request{
		Name: a.Name, Owner: a.Owner, Plan: a.Plan, Origin: auth.FromDevice, Lifetime: a.Life,
	})
	if errors.Is(err, auth.ErrTicketUsed) {
		err = devicecode.ErrTicketUsed
	}
	return devicecode.Issued{ID: key.ID, Plaintext: plaintext, Life: a.Life}, err
}

func (w *web) auditDevice(ctx context.Context, e devicecode.Event) {
	w.console.Record(ctx, console.Event{
		What: e.What, Who: e.Owner, Owner: e.Owner, KeyID: e.KeyID, Address: e.Address,
		Detail: joinNonEmpty("device "+e.Client, e.Plan),
	})
}

func joinNonEmpty(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", plan " + b
}

func (w *web) newConsole(sealer *auth.Sealer, url string) (*console.Console, error) {
	attempts := devicecode.NewAttempts(w.store, w.cfg().Service+":console:{attempts}:")
	return console.New(console.Options{
		Service: w.cfg().Service, URL: url, Settings: w.cfg().Console, Redis: w.store, Log: w.log,
		APIURL: cmp.Or(w.cfg().Console.APIURL, urlOf(w.api, w.cfg().TLS.API)+"/v1"),
		Seals:  console.Seals{Seal: sealer.Seal, Open: sealer.Open, Token: sealer.Token, Genuine: sealer.Genuine},
		Keys:   w.consoleKeys(), Devices: w.consoleDevices(), Client: w.client,
		Try: func(ctx context.Context, caps []console.Cap) (func(context.Context), time.Duration, error) {
			all := make([]devicecode.Cap, len(caps))
			for i, c := range caps {
				all[i] = devicecode.Cap(c)
			}
			return attempts.Try(ctx, all...)
		},
		Usage: w.usage, Pools: w.poolsNow, Plans: w.plansNow,
	})
}

func (w *web) consoleKeys() console.Keys {
	return console.Keys{
		Create: func(ctx context.Context, k console.NewKey) (string, console.Key, error) {
			plaintext, key, err := w.keys.Create(ctx, auth.Request{Name: k.Name, Owner: k.Owner, Plan: k.Plan, Lifetime: k.Life, Origin: auth.FromConsole})
			return plaintext, consoleKey(key), keyError(err)
		},
		Rotate: func(ctx context.Context, id string, overlap time.Duration) (string, console.Key, error) {
			plaintext, key, err := w.keys.Rotate(ctx, id, overlap, auth.FromConsole)
			return plaintext, consoleKey(key), keyError(err)
		},
		Get:    func(ctx context.Context, id string) (console.Key, error) { return oneKey(w.keys.Get(ctx, id)) },
		Revoke: func(ctx context.Context, id string) (console.Key, error) { return oneKey(w.keys.Revoke(ctx, id)) },
		Rename: func(ctx context.Context, id, name string) (console.Key, error) {
			return oneKey(w.keys.Rename(ctx, id, name))
		},
		SetPlan: func(ctx context.Context, id, plan string) (console.Key, error) {
			return oneKey(w.keys.SetPlan(ctx, id, plan))
		},
		List: func(ctx context.Context, owner string) iter.Seq2[console.Key, error] {
			return func(yield func(console.Key, error) bool) {
				for key, err := range w.keys.Keys(ctx, owner) {
					if !yield(consoleKey(key), err) {
						return
					}
				}
			}
		},
	}
}

func oneKey(key auth.Key, err error) (console.Key, error) { return consoleKey(key), keyError(err) }

func consoleKey(k auth.Key) console.Key {
	key := console.Key{
		ID: k.ID, Name: k.Name, Owner: k.Owner, Plan: k.Plan, Last4: k.Last4, Origin: string(k.Origin),
		State: string(k.State), Created: k.Created, Expires: k.Expires, Used: k.Used,
	}
	switch k.State {
	case auth.Revoked:
		key.Ended = k.Revoked
	case auth.Expired:
		key.Ended = k.Expires
	}
	return key
}

func keyError(err error) error {
	var invalid *auth.Invalid
	switch {
	case errors.As(err, &invalid):
		return &console.Invalid{Param: invalid.Param, Reason: invalid.Reason}
	case errors.Is(err, auth.ErrUnknown), errors.Is(err, auth.ErrRevoked), errors.Is(err, auth.ErrExpired):
		return console.ErrNotFound
	}
	return err
}

func (w *web) consoleDevices() console.Devices {
	if w.devices == nil {
		return console.Devices{}
	}
	visitor := func(v console.Visitor) devicecode.Visitor { return devicecode.Visitor(v) }
	return console.Devices{
		Plans: w.cfg().Device.Plans,
		LookUp: func(ctx context.Context, v console.Visitor, code string) (console.Device, error) {
			return consoleDevice(w.devices.LookUp(ctx, visitor(v), code))
		},
		Approve: func(ctx context.Context, v console.Visitor, code, plan string) (console.Device, error) {
			return consoleDevice(w.devices.Approve(ctx, visitor(v), code, plan))
		},
		Deny: func(ctx context.Context, v console.Visitor, code string) (console.Device, error) {
			return consoleDevice(w.devices.Deny(ctx, visitor(v), code))
		},
	}
}

func consoleDevice(d devicecode.Waiting, err error) (console.Device, error) {
	var many *devicecode.TooMany
	switch {
	case errors.As(err, &many):
		err = &console.TooMany{Wait: many.Wait}
	case errors.Is(err, devicecode.ErrWrongCode):
		err = console.ErrWrongCode
	case errors.Is(err, devicecode.ErrNotAllowed):
		err = console.ErrNotAllowed
	}
	return console.Device{
		Code: devicecode.Show(d.UserCode), Client: d.Client, Address: d.Address, Plan: d.Scope,
		Age: d.Now.Sub(d.Started), Left: d.Expires.Sub(d.Now), KeyLife: d.KeyLife,
	}, err
}

func (w *web) usage(ctx context.Context, owner string, since, until time.Time) ([]console.UsageRow, error) {
	rows, err := w.limiter.Usage(ctx, limits.UsageFilter{Owner: owner, Since: since, Until: until})
	if err != nil {
		return nil, err
	}
	usage := make([]console.UsageRow, len(rows))
	for i, r := range rows {
		usage[i] = console.UsageRow{
			Hour: r.Hour, Owner: r.Owner, KeyID: r.KeyID, Model: r.Model, Requests: r.Requests, Refused: r.Refused,
			PromptTokens: r.PromptTokens, CompletedTokens: r.CompletionTokens,
		}
	}
	return usage, nil
}

func (w *web) poolsNow() []console.Pool {
	var pools []console.Pool
	for _, pool := range w.pools() {
		pools = append(pools, w.poolNow(pool.Snapshot()))
	}
	slices.SortFunc(pools, func(a, b console.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return pools
}

func (w *web) poolNow(view balancer.View) console.Pool {
	shown := console.Pool{Name: view.Pool}
	for _, model := range w.current().Models {
		if model.Pool == view.Pool {
			shown.Models = append(shown.Models, model.ID)
		}
	}
	for _, r := range view.Replicas {
		replica := console.Replica{
			ID: r.ID, State: string(r.State), Why: r.Why, Breaker: r.Breaker, InFlight: r.InFlight, Queued: -1,
			Answered: int64(r.Outcomes[balancer.Success.String()]),
		}
		if r.Load.Waiting != nil {
			replica.Queued = int64(*r.Load.Waiting)
		}
		shown.Replicas = append(shown.Replicas, replica)
	}
	return shown
}

func (w *web) plansNow() []console.Plan {
	cfg := w.current()
	var plans []console.Plan
	for _, name := range cfg.PlanNames() {
		plan, _ := cfg.Plan(name)
		shown := console.Plan{Name: name, Models: modelsInWords(plan)}
		for _, limit := range plan.Limits {
			shown.Limits = append(shown.Limits, limitInWords(limit))
		}
		plans = append(plans, shown)
	}
	return plans
}

func modelsInWords(plan config.Plan) string {
	switch {
	case len(plan.AllowModels) > 0:
		return "Only " + strings.Join(plan.AllowModels, ", ") + "."
	case len(plan.DenyModels) > 0:
		return "Every model but " + strings.Join(plan.DenyModels, ", ") + "."
	}
	return "Every model."
}

func limitInWords(l config.Limit) string {
	switch {
	case l.Requests > 0:
		return fmt.Sprintf("%s requests in any %s", console.Commas(l.Requests), config.FormatDuration(l.Per))
	case l.Tokens > 0:
		return fmt.Sprintf("%s tokens in any %s", console.Commas(l.Tokens), config.FormatDuration(l.Per))
	}
	return fmt.Sprintf("%s requests at once", console.Commas(l.Concurrent))
}

// deviceRoutes are what the API listener mounts; nil functions: device login
// is off.
func (w *web) deviceRoutes() (code, token func(context.Context, devicecode.Request) devicecode.Response) {
	if w == nil || w.devices == nil {
		return nil, nil
	}
	return w.devices.Code, w.devices.Token
}

// keyChanged is for changes that come by the admin listener's key API, or by a
// key that revokes itself: they belong into the same log.
func (w *web) keyChanged(ctx context.Context, what string, key auth.Key, remote string) {
	if w == nil {
		return
	}
	w.console.Record(ctx, console.Event{What: what, Who: "key API", Owner: key.Owner, KeyID: key.ID, Address: remote, Detail: "plan " + key.Plan})
}
