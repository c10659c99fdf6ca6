# nomad job run deploy/nomad/mete.nomad.hcl
# Secrets: nomad var put nomad/jobs/mete pepper=... admin_token=... redis_password=...
job "mete" {
  datacenters = ["*"]
  type        = "service"

  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "10s"
    auto_revert      = true
  }

  group "gateway" {
    count = 2

    network {
      port "api" { static = 8080 }
      port "admin" { static = 9090 }
    }

    # Nomad registers it and, when it stops the task, deregisters it first:
    # no consul.register in the configuration below.
    service {
      name = "mete"
      port = "api"
      tags = ["v1"]
      check {
        type     = "http"
        port     = "admin"
        path     = "/readyz"
        interval = "2s"
        timeout  = "1s"
      }
    }
    service {
      name = "mete-admin"
      port = "admin"
      tags = ["metrics"]
    }

    task "mete" {
      driver         = "docker"
      shutdown_delay = "5s"
      kill_signal    = "SIGTERM"
      kill_timeout   = "11m" # more than shutdown.drain; the client's max_kill_timeout must allow it

      config {
        image        = "mete:dev"
        network_mode = "host"
        args         = ["serve", "--config", "/secrets/mete.yaml"]
        cap_drop     = ["all"]
      }

      template {
        destination   = "secrets/mete.yaml"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = <<EOT
service: mete
listen: {api: ":8080", admin: ":9090"}
consul: {address: "http://127.0.0.1:8500"}
models:
  - {id: mete, pool: general, created: 2026-01-15, context_window: 32768}
pools:
  general: {consul: {service: vllm-general}}
plans:
  free: {limits: [{requests: 60, per: 1m}, {tokens: 60_000, per: 1m}, {concurrent: 4}]}
  unlimited: {}
shutdown: {lame_duck: 0s, drain: 10m}
{{ with nomadVar "nomad/jobs/mete" -}}
redis: {url: "redis://mete:{{ .redis_password }}@redis.service.consul:6379/0"}
keystore:
  peppers: [{version: 1, secret: "{{ .pepper }}"}]
  admin_token: "{{ .admin_token }}"
{{- end }}
EOT
      }

      resources {
        cpu    = 2000
        memory = 1024
      }
    }
  }
}
