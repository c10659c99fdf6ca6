# A pool of vLLM servers, a GPU each. The autoscaler's part is explained in
# docs/operations.md; without it, `scaling` does nothing.
job "vllm-general" {
  datacenters = ["*"]
  type        = "service"

  group "replica" {
    count = 2

    scaling {
      enabled = true
      min     = 2
      max     = 8
      policy {
        cooldown            = "5m" # loading a model takes minutes
        evaluation_interval = "30s"
        check "queue" {
          source = "prometheus"
          query  = "sum(mete_model_queue_depth{model=\"mete\"})"
          strategy "target-value" { target = 8 }
        }
      }
    }

    network {
      port "http" { to = 8000 }
    }

    service {
      name = "vllm-general"
      port = "http"
      meta {
        models = "mete"
      }
      check {
        type     = "http"
        path     = "/health"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "vllm" {
      driver         = "docker"
      shutdown_delay = "15s" # deregistered; the gateways have looked away
      kill_timeout   = "10m"

      config {
        image    = "vllm/vllm-openai:v0.27.0"
        ports    = ["http"]
        shm_size = 8589934592
        args = [
          "--model", "Qwen/Qwen3-32B",
          "--served-model-name", "mete",
          "--max-num-queued-reqs", "64",
          "--shutdown-timeout", "590",
        ]
      }

      resources {
        cpu    = 8000
        memory = 65536
        device "nvidia/gpu" { count = 1 }
      }
    }
  }
}
