package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"mete/balancer"
	"mete/balancer/consul"
	"mete/config"
)

// source is one place from which a pool learns its replicas, beside the
// configuration.
type source struct {
	settings any                   // what the configuration says of it; comparable
	run      func(context.Context) // until its end
	stop     context.CancelFunc
	ended    chan struct{}

	mu   sync.Mutex
	view sourceView
}

// sourceView is how a source stands, to be shown as JSON.
type sourceView struct {
	Pool     string     `json:"pool"`
	Source   string     `json:"source"`
	Replicas int        `json:"replicas"`          // in the list in use
	Changed  *time.Time `json:"changed,omitempty"` // when that list was new
	Fault    string     `json:"fault,omitempty"`
}

// start follows the source until close.
func (s *source) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan struct{})
	go func() {
		defer close(s.ended)
		s.run(ctx)
	}()
}

func (s *source) close() {
	s.stop()
	<-s.ended
}

// makeSources makes what follows DNS and Consul for a pool. Those among running
// that are still wanted stay.
func (r *running) makeSources(pool *balancer.Pool, settings config.Pool, running []*source) (made []*source, err error) {
	known := make(map[any]*source, len(running))
	for _, s := range running {
		known[s.settings] = s
	}
	for _, url := range settings.DNS {
		if s := known[url]; s != nil {
			made = append(made, s)
			continue
		}
		made = append(made, r.dnsSource(pool, url))
	}
	for _, service := range settings.Consul {
		if s := known[service]; s != nil {
			made = append(made, s)
			continue
		}
		if r.consul == nil {
			if r.consul, err = r.consulClient(); err != nil {
				return nil, err
			}
		}
		made = append(made, r.consulSource(pool, service))
	}
	return made, nil
}

func (r *running) openStateDir() error {
	if r.cfg().StateDir == "" {
		return nil
	}
	return os.MkdirAll(r.cfg().StateDir, 0o750)
}

func (r *running) consulClient() (*consul.Client, error) {
	c := r.cfg().Consul
	return consul.New(consul.Config{
		Address: c.Address, Token: c.Token.Reveal(),
		CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, ServerName: c.TLS.ServerName,
		Datacenter: c.Datacenter, Namespace: c.Namespace, Partition: c.Partition,
	})
}

func (r *running) dnsSource(pool *balancer.Pool, url string) *source {
	s := &source{settings: url, view: sourceView{Pool: pool.Name(), Source: "dns " + url}}
	dns := &balancer.DNS{
		URL: url, Keeper: r.keeper(s), Publish: r.publisher(pool, s), OnError: func(err error) { r.sourceTrouble(s, err) },
		Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
			if err == nil {
				r.sourceTrouble(s, nil)
			}
			return addresses, err
		},
	}
	s.run = dns.Run
	return s
}

func (r *running) consulSource(pool *balancer.Pool, service config.Service) *source {
	s := &source{settings: service, view: sourceView{Pool: pool.Name(), Source: consulName(service)}}
	watch := &consul.Watch{
		Client: r.consul,
		Service: consul.Service{
			Name: service.Service, Tag: service.Tag, Datacenter: service.Datacenter,
			Namespace: service.Namespace, Partition: service.Partition, AllowStale: service.Stale,
		},
		Keeper: r.keeper(s), Publish: r.publisher(pool, s), OnError: func(err error) { r.sourceTrouble(s, err) },
	}
	s.run = watch.Run
	return s
}

// consulName tells a pool's services apart.
func consulName(s config.Service) string {
	name := "consul " + s.Service
	for _, part := range []struct{ label, value string }{
		{"tag", s.Tag}, {"datacenter", s.Datacenter}, {"namespace", s.Namespace}, {"partition", s.Partition},
	} {
		if part.value != "" {
			name += " " + part.label + "=" + part.value
		}
	}
	return name
}

// publisher hands a source's lists to its pool.
func (r *running) publisher(pool *balancer.Pool, s *source) func([]balancer.Endpoint) error {
	name := s.view.Source
	return func(list []balancer.Endpoint) error {
		if err := pool.Publish(name, list); err != nil {
			return err
		}
		now := time.Now()
		s.mu.Lock()
		s.view.Replicas, s.view.Changed = len(list), &now
		s.mu.Unlock()
		r.log.Info().Str("pool", s.view.Pool).Str("source", name).Int("replicas", len(list)).Msg("replicas found")
		select {
		case r.listed <- struct{}{}:
		default:
		}
		return nil
	}
}

// sourceTrouble notes a fault, or its end, and logs what is new.
func (r *running) sourceTrouble(s *source, err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	s.mu.Lock()
	before := s.view.Fault
	s.view.Fault = fault
	s.mu.Unlock()
	log := func(e *zerolog.Event, what string) {
		e.Str("pool", s.view.Pool).Str("source", s.view.Source).Msg(what)
	}
	switch fault {
	case before:
	case "":
		log(r.log.Info(), "source of replicas is well again")
	default:
		log(r.log.Warn().Str("error", fault), "source of replicas is in trouble; the last good list stays in use")
	}
}

func (s *source) status() sourceView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// keeper keeps a source's last good list in a file of its own, whose name ends
// in a digest, since the readable part may be the same for two.
func (r *running) keeper(s *source) *balancer.Keeper {
	if r.cfg().StateDir == "" {
		return balancer.NewKeeper("")
	}
	digest := sha256.Sum256([]byte(s.view.Pool + "\x00" + s.view.Source))
	name := notInFileName.ReplaceAllString(s.view.Pool+"."+s.view.Source, "_")
	file := fmt.Sprintf("%.80s-%s.json", name, hex.EncodeToString(digest[:4]))
	return balancer.NewKeeper(filepath.Join(r.cfg().StateDir, file))
}

// announce registers the gateway in Consul, if it is asked to, until leave is
// called or the gateway closed.
func (r *running) register(context.Context) error {
	if r.cfg().Consul.Register.Name == "" {
		return nil
	}
	if r.consul == nil {
		client, err := r.consulClient()
		if err != nil {
			return err
		}
		r.consul = client
	}
	registration, err := r.registration()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { r.consul.Announce(ctx, registration, r.announced) })
	end := func(cause error) func() {
		return func() { cancel(cause); wait.Wait() }
	}
	r.leave, r.keepRegistered = end(nil), end(consul.ErrHandedOver)
	r.onClose(r.leave)
	return nil
}

func (r *running) announced(err error) {
	r.meters.registered.Set(oneIf(err == nil))
	if err == nil {
		r.log.Info().Msg("registered in consul again")
		return
	}
	r.log.Warn().Err(err).Msg("consul does not know this gateway as it should")
}

// registration is the gateway as others shall find it.
func (r *running) registration() (consul.Registration, error) {
	set := r.cfg().Consul.Register
	n := consul.Registration{
		ID: set.ID, Name: set.Name, Address: set.Address, Port: set.Port, Tags: set.Tags,
		CheckURL: set.Check, Interval: set.CheckInterval,
	}
	if n.Port == 0 {
		n.Port = r.api.Addr().(*net.TCPAddr).Port
	}
	if n.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return n, fmt.Errorf("consul.register.id: %w", err)
		}
		n.ID = strings.Join([]string{n.Name, host, strconv.Itoa(n.Port)}, "-")
	}
	switch n.CheckURL {
	case "":
		n.CheckURL = scheme(r.cfg().TLS.Admin) + reachable(r.admin.Addr().(*net.TCPAddr)) + "/readyz"
	case config.NoCheck:
		n.CheckURL = ""
	}
	return n, nil
}

// reachable is where an agent on the same host finds the listener.
func reachable(a *net.TCPAddr) string {
	host := a.IP.String()
	if a.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(a.Port))
}
