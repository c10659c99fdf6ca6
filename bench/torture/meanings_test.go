package torture

import "strings"

// sequences are about several requests on one connection (RFC 9112, section 9).
func sequences() []row {
	good := lined(line)
	return []row{
		{"two", good + good, "200 200 200"},
		{"three", good + good + good, "200 200 200 200"},
		{"chunks, then a length", inChunks(chunk(question)+"0\r\n\r\n") + good, "200 200 200"},
		{"an empty line between", good + "\r\n" + good, "200 200 200"},
		{"two empty lines between", good + "\r\n\r\n" + good, "200 400"},
		{"a bare LF between", good + "\n" + good, "200 400"},
		{"a byte too many", good + "x" + good, "200 405"},
		{"a brace too many", good + "}" + good, "200 400"},
		{"a bad one behind a good one", good + lined("POST "+chat+" HTTP/1.1\n"), "200 400"},
		{"a good one behind a bad one", lined("POST "+chat+" HTTP/1.1\n") + good, "400"},
		{"a refused one, then a good one", strings.Replace(good, key, "x", 1) + good, "401"},
		{"one behind the last chunk", inChunks(chunk(question)+"0\r\n\r\n") + hidden, "200 400 200"},
		{"close", with("Connection: close\r\n") + good, "200"},
		{"close in capitals", with("Connection: CLOSE\r\n") + good, "200"},
		{"close among others", with("Connection: keep-alive, close\r\n") + good, "200"},
		{"close, then something else", with("Connection: close\r\nConnection: x\r\n") + good, "200"},
		{"keep-alive", with("Connection: keep-alive\r\n"), passes},
		{"HTTP/1.0", lined("POST " + chat + " HTTP/1.0\r\n"), "200"},
		{"HTTP/1.0 that keeps alive", "POST " + chat + " HTTP/1.0\r\nConnection: keep-alive\r\n" + fields + sized + "\r\n" + question, passes},
	}
}

// meanings are about fields that change what a request is (RFC 9110).
func meanings() []row {
	waits := func(value string) string { return with("Expect: " + value + "\r\n") }
	return []row{
		{"an expectation", waits("100-continue"), "100 " + passes},
		{"an expectation in capitals", waits("100-CONTINUE"), "100 " + passes},
		{"an expectation that is not known", waits("200-ok"), "417"},
		{"two expectations in one line", waits("100-continue, x"), "417"},
		{"an empty expectation", waits(""), "417"},
		{"an expectation twice", waits("100-continue\r\nExpect: 100-continue"), "417"},
		{"an expectation with a parameter", waits("100-continue;a=b"), "417"},
		{"an expectation with a bad key", strings.Replace(waits("100-continue"), key, "x", 1), "401"},
		{"an expectation without a key", line + host + "Expect: 100-continue\r\nContent-Type: application/json\r\n" + sized + "\r\n" + question, "401"},
		{"an expectation and chunks", framed("Expect: 100-continue\r\n"+inBits, chunk(question)+"0\r\n\r\n"), "100 " + passes},
		{"an expectation and two framings", framed("Expect: 100-continue\r\n"+inBits+sized, question), bad},
		{"an expectation of HTTP/1.0", "POST " + chat + " HTTP/1.0\r\n" + fields + "Expect: 100-continue\r\n" + sized + "\r\n" + question, "200"},
		{"an expectation of a body that is too large", framed("Expect: 100-continue\r\nContent-Length: 99999999999\r\n", ""), "413"},
		{"an upgrade to HTTP/2", with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), passes},
		{"an upgrade to WebSocket", with("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), passes},
		{"a connection option that names a key", with("Connection: Authorization\r\n"), passes},
		{"another method in a field", with("X-HTTP-Method-Override: DELETE\r\n"), passes},
		{"another path in a field", with("X-Original-URL: /sleep\r\nX-Rewrite-URL: /sleep\r\n"), passes},
		{"another client in a field", with("X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n"), passes},
		{"a range", with("Range: bytes=0-1\r\n"), passes},
		{"an id with a line end in hexadecimal", with("X-Request-Id: a%0d%0ab\r\n"), passes},
		{"no content type", line + host + "Authorization: Bearer " + key + "\r\n" + sized + "\r\n" + question, "415"},
		{"a compressed body", with("Content-Encoding: gzip\r\n"), "415"},
		{"no key", line + host + "Content-Type: application/json\r\n" + sized + "\r\n" + question, "401"},
		{"a key of another scheme", strings.Replace(with(""), "Bearer", "Basic", 1), "401"},
		{"a key in the target", strings.Replace(strings.Replace(with(""), chat, chat+"?key="+key, 1), "Bearer "+key, "Bearer x", 1), "401"},
	}
}

// sizes are about too much of everything; a header may have 8 KiB.
func sizes() []row {
	return []row{
		{"a long target", lined("POST " + chat + "?" + repeat("a", 9000) + " HTTP/1.1\r\n"), tooBig},
		{"a target without an end", "GET /" + repeat("a", 20000), tooBig},
		{"a method without an end", repeat("A", 20000), tooBig},
		{"a long name", with(repeat("a", 9000) + ": b\r\n"), tooBig},
		{"a long value", with("X-A: " + repeat("a", 9000) + "\r\n"), tooBig},
		{"many fields", with(repeat("X-A: b\r\n", 2000)), tooBig},
		{"as many fields as fit", with(repeat("a:\r\n", 1500)), passes},
		{"a long cookie", with("Cookie: " + repeat("a=b; ", 1400) + "\r\n"), passes},
		{"a long key", with("X-A: b\r\n" + "Proxy-Authorization: " + repeat("a", 9000) + "\r\n"), tooBig},
	}
}
