# What the gateway's token may do: consul acl policy create -name mete -rules @acl.hcl
service_prefix "vllm-" { policy = "read" }
node_prefix "" { policy = "read" }
service "mete" { policy = "write" }
