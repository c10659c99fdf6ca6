# /etc/consul.d/mete.hcl, for a gateway that does not register itself. One whose
# configuration has consul.register needs no file: it comes once it answers, and
# goes before it drains, which this cannot know.
service {
  name = "mete"
  port = 8080
  tags = ["v1"]
  meta = { metrics_port = "9090" }
  checks = [
    {
      name     = "ready"
      http     = "http://127.0.0.1:9090/readyz"
      interval = "2s"
      timeout  = "1s"
    },
  ]
}
