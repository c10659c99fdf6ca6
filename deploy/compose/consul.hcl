# The simulated replicas of compose.yaml, as a node agent would know vLLM's.
services {
  id      = "sim-1"
  name    = "vllm-general"
  address = "sim-1"
  port    = 8000
  meta    = { models = "mete" }
  checks  = [{ http = "http://sim-1:8000/health", interval = "2s", timeout = "1s" }]
}
services {
  id      = "sim-2"
  name    = "vllm-general"
  address = "sim-2"
  port    = 8000
  meta    = { models = "mete" }
  checks  = [{ http = "http://sim-2:8000/health", interval = "2s", timeout = "1s" }]
}
