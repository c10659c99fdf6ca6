package overhead

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The peers are configured for the least that they can cost: no buffering, no
// log, connections kept on both sides, one process on one core.

const nginxConfig = `daemon off;
master_process off;
%[5]s
worker_rlimit_nofile 20000;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 19500; }
http {
  access_log off;
  client_body_temp_path %[1]s/nginx-body;
  proxy_temp_path %[1]s/nginx-proxy;
  fastcgi_temp_path %[1]s/nginx-fastcgi;
  uwsgi_temp_path %[1]s/nginx-uwsgi;
  scgi_temp_path %[1]s/nginx-scgi;
  client_max_body_size 64m;
  keepalive_requests 1000000000;
  keepalive_timeout 330s;
  upstream replicas {
%[2]s    keepalive 4096;
    keepalive_requests 1000000000;
    keepalive_timeout 3500ms;
  }
  server {
    listen %[3]s backlog=4096;
    location / {
      proxy_pass http://replicas;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout %[4]ds;
    }
  }
}
`

const haproxyConfig = `global
  nbthread 1
  maxconn 9500
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 330s
  option http-no-delay
  http-reuse always
frontend in
  bind %[1]s backlog 4096
  default_backend replicas
backend replicas
  balance leastconn
%[2]s`

func (l *lab) openNginx(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	servers := ""
	for _, r := range l.replicas {
		servers += "    server " + r + ";\n"
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	path, err := l.write("nginx.conf", fmt.Sprintf(nginxConfig, l.dir, servers, address, 600, user))
	if err != nil {
		return err
	}
	p, err := l.launch(ctx, nginx, l.proxy, address, nginx, "-e", "stderr", "-p", l.dir, "-c", path)
	if err != nil {
		return err
	}
	l.proxies = append(l.proxies, l.newProxy(nginx, address, p))
	l.note(exec.Command(nginx, "-v"))
	return nil
}

func (l *lab) openHAProxy(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	servers := ""
	for i, r := range l.replicas {
		servers += fmt.Sprintf("  server r%d %s pool-max-conn -1 pool-purge-delay 4s\n", i, r)
	}
	path, err := l.write("haproxy.cfg", fmt.Sprintf(haproxyConfig, address, servers))
	if err != nil {
		return err
	}
	p, err := l.launch(ctx, "haproxy", l.proxy, address, "haproxy", "-db", "-f", path)
	if err != nil {
		return err
	}
	l.proxies = append(l.proxies, l.newProxy("haproxy", address, p))
	l.note(exec.Command("haproxy", "-v"))
	return nil
}

// note keeps the first line of what a program says, its version.
func (l *lab) note(cmd *exec.Cmd) {
	out, err := cmd.CombinedOutput()
	if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); err == nil && line != "" {
		l.notes = append(l.notes, line)
	}
}
