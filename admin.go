package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mete/auth"
	"mete/proxy/openapi"
)

// serveAdmin serves metrics, health, profiles and the key API.
func (r *running) serveAdmin(context.Context) error {
	secure, err := r.serverTLS("admin", r.cfg().TLS.Admin)
	if err != nil {
		return err
	}
	var ln net.Listener = r.admin
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	server := r.newHTTPServer(r.adminRoutes())
	r.goServe("admin", func() error { return server.Serve(ln) })
	r.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	})
	return nil
}

func (r *running) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry, EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", r.readyz)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openapi.JSON())
	})
	mux.HandleFunc("GET /debug/pools", r.showPools)
	mux.HandleFunc("GET /debug/queue", r.showQueue)
	mux.HandleFunc("GET /debug/route", r.showRoute)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	token := r.cfg().Keystore.AdminToken.Reveal()
	mux.Handle("GET /admin/usage", auth.RequireToken(token, http.HandlerFunc(r.serveUsage)))
	mux.Handle("GET /admin/log-level", auth.RequireToken(token, http.HandlerFunc(r.showLogLevel)))
	mux.Handle("PUT /admin/log-level", auth.RequireToken(token, http.HandlerFunc(r.changeLogLevel)))
	if r.keys != nil {
		api := &auth.API{
			Store: r.keys, Token: token, Log: r.log,
			PlanExists: func(plan string) bool { _, ok := r.cfg().Plan(plan); return ok },
			Changed:    r.web.keyChanged,
		}
		mux.Handle("/admin/keys", api.Handler())
		mux.Handle("/admin/keys/", api.Handler())
	}
	return mux
}

// readyz tells load balancers whether to send requests here.
func (r *running) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !r.gateway.Ready():
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	case !r.open.Load():
		http.Error(w, "starting", http.StatusServiceUnavailable)
	case len(emptyPools(r.pools())) == len(r.pools()):
		http.Error(w, "no pool has replicas yet", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ready")
	}
}
