package torture

import "fmt"

// fieldRows are about field lines (RFC 9112, section 5).
func fieldRows() []row {
	rows := []row{
		{"one more", with("X-A: b\r\n"), passes},
		{"no value", with("X-A:\r\n"), passes},
		{"blanks as a value", with("X-A: \t \r\n"), passes},
		{"no blank behind the colon", with("X-A:b\r\n"), passes},
		{"a tab behind the colon", with("X-A:\tb\r\n"), passes},
		{"bytes outside ASCII", with("X-A: \x80\xff\r\n"), passes},
		{"every mark in a name", with("!#$%&'*+-.^_`|~: b\r\n"), passes},
		{"a bare LF", with("X-A: b\n"), bad},
		{"a bare CR", with("X-A: b\rX-C: d\r\n"), bad},
		{"CR CR LF", with("X-A: b\r\r\n"), bad},
		{"LF CR", with("X-A: b\n\r"), bad},
		{"a fold", with("X-A: b\r\n c\r\n"), bad},
		{"a fold by a tab", with("X-A: b\r\n\tc\r\n"), bad},
		{"a fold of nothing", with("X-A: b\r\n \r\n"), bad},
		{"a fold behind the request line", line + " X-A: b\r\n" + host + fields + sized + "\r\n" + question, bad},
		{"a fold that hides a coding", with("X-A: b\r\n Transfer-Encoding: chunked\r\n"), bad},
		{"a blank before the colon", with("X-A : b\r\n"), bad},
		{"a tab before the colon", with("X-A\t: b\r\n"), bad},
		{"a blank in the name", with("X A: b\r\n"), bad},
		{"no name", with(": b\r\n"), bad},
		{"no colon", with("X-A\r\n"), bad},
		{"a lone colon", with(":\r\n"), bad},
		{"NUL in a name", with("X\x00A: b\r\n"), bad},
		{"NUL in a value", with("X-A: b\x00c\r\n"), bad},
		{"DEL in a name", with("X\x7fA: b\r\n"), bad},
		{"DEL in a value", with("X-A: b\x7f\r\n"), bad},
		{"a name outside ASCII", with("X-\xc4: b\r\n"), bad},
		{"a quoted name", with("\"X-A\": b\r\n"), bad},
		{"a name in parentheses", with("(X-A): b\r\n"), bad},
		{"a name with a slash", with("X/A: b\r\n"), bad},
		{"a name with a comma", with("X,A: b\r\n"), bad},
		{"a name with an equals sign", with("X=A: b\r\n"), bad},
		{"a name with brackets", with("X[A]: b\r\n"), bad},
		{"a name with an at sign", with("X@A: b\r\n"), bad},
		{"lines that end with LF only", "POST " + chat + " HTTP/1.1\nHost: x\nContent-Length: 0\n\n", bad},
		{"an end by a bare LF", line + host + fields + sized + "\n" + question, bad},
		{"an end by LF LF", line + host + fields + "Content-Length: 63\n\n" + question, bad},
		{"a line end inside the end", line + host + fields + sized + "\r\r\n" + question, bad},
		{"two keys", with("Authorization: Bearer x\r\n"), bad},
		{"the same key twice", with("Authorization: Bearer " + key + "\r\n"), bad},
		{"two keys, in capitals", with("AUTHORIZATION: Bearer x\r\n"), bad},
		{"a key with an underscore", with("Author_ization: Bearer x\r\n"), passes},
		{"a proxy's key", with("Proxy-Authorization: Bearer x\r\n"), passes},
	}
	for c := range 0x20 {
		if c != '\t' && c != '\n' && c != '\r' && c != 0 {
			rows = append(rows,
				row{fmt.Sprintf("byte %#02x in a name", c), with(fmt.Sprintf("X%cA: b\r\n", c)), bad},
				row{fmt.Sprintf("byte %#02x in a value", c), with(fmt.Sprintf("X-A: b%cc\r\n", c)), bad})
		}
	}
	return rows
}

// hosts are about the Host field (section 3.2.3 and RFC 9110, section 7.2).
func hosts() []row {
	named := func(lines string) string { return line + lines + fields + sized + "\r\n" + question }
	return []row{
		{"with a port", named("Host: x:80\r\n"), passes},
		{"IPv6", named("Host: [::1]:80\r\n"), passes},
		{"in lower case", named("host: x\r\n"), passes},
		{"none", named(""), bad},
		{"none in HTTP/1.0", "POST " + chat + " HTTP/1.0\r\n" + fields + sized + "\r\n" + question, "200"},
		{"two", named("Host: x\r\nHost: y\r\n"), bad},
		{"the same twice", named("Host: x\r\nHost: x\r\n"), bad},
		{"two in HTTP/1.0", "POST " + chat + " HTTP/1.0\r\nHost: x\r\nHost: y\r\n" + fields + sized + "\r\n" + question, bad},
		{"two, one with a blank before the colon", named("Host: x\r\nHost : y\r\n"), bad},
		{"two, one of them folded", named("Host: x\r\n Host: y\r\n"), bad},
		{"two, joined", named("Host: x, y\r\n"), bad},
		{"empty", named("Host:\r\n"), bad},
		{"a blank", named("Host: \r\n"), bad},
		{"a blank inside", named("Host: x y\r\n"), bad},
		{"a slash", named("Host: x/y\r\n"), bad},
		{"a user", named("Host: u@x\r\n"), bad},
		{"a query", named("Host: x?y\r\n"), bad},
		{"a fragment", named("Host: x#y\r\n"), bad},
		{"a backslash", named("Host: x\\y\r\n"), bad},
		{"a comma", named("Host: x,y\r\n"), bad},
		{"a quote", named("Host: \"x\"\r\n"), bad},
		{"a byte outside ASCII", named("Host: x\xff\r\n"), bad},
		{"NUL", named("Host: x\x00y\r\n"), bad},
		{"another name for it", named("Host: x\r\nX-Forwarded-Host: y\r\n"), passes},
	}
}
