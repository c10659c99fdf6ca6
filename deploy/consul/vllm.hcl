# /etc/consul.d/vllm.hcl, on the machine of each vLLM server. The gateway takes
# the instances whose checks pass, and reads from meta:
#   models  what the instance serves, where not all of the pool do the same
#   scheme  https, where vLLM speaks TLS
# Its weight is weights.passing: a machine with twice the GPUs says 2.
# Deregister the service, and wait for what is running, before vLLM is stopped.
service {
  id      = "vllm-general-1"
  name    = "vllm-general"
  port    = 8000
  tags    = ["gpu", "h100"]
  meta    = { models = "Qwen/Qwen3-32B", scheme = "http" }
  weights = { passing = 1, warning = 1 }
  checks = [
    {
      name                     = "engine"
      http                     = "http://127.0.0.1:8000/health"
      interval                 = "2s"
      timeout                  = "1s"
      failures_before_critical = 2
    },
  ]
}
