package torture

import "fmt"

// chunks are about chunked bodies (RFC 9112, section 7.1).
func chunks() []row {
	n := len(question)
	sizedBy := func(size string) string { return inChunks(size + question + "\r\n0\r\n\r\n") }
	size := fmt.Sprintf("%x", n)
	return []row{
		{"one chunk", sizedBy(size + "\r\n"), passes},
		{"many chunks", inChunks(chunk(question[:1]) + chunk(question[1:7]) + chunk(question[7:]) + "0\r\n\r\n"), passes},
		{"a size in capitals", sizedBy(fmt.Sprintf("%X\r\n", n)), passes},
		{"zeros before the size", sizedBy("000" + size + "\r\n"), passes},
		{"an extension", sizedBy(size + ";a=b\r\n"), passes},
		{"an extension in quotes", sizedBy(size + ";a=\"b;c\"\r\n"), passes},
		{"an extension of the last chunk", inChunks(chunk(question) + "0;a=b\r\n\r\n"), passes},
		{"zeros as the last chunk", inChunks(chunk(question) + "000\r\n\r\n"), passes},
		{"no chunk but the last", inChunks("0\r\n\r\n"), "400 200"},
		{"a bare LF behind the size", sizedBy(size + "\n"), bad},
		{"a bare LF behind the data", inChunks(size + "\r\n" + question + "\n0\r\n\r\n"), bad},
		{"a bare LF in an extension", sizedBy(size + ";a\nb\r\n"), bad},
		{"a bare CR in an extension", sizedBy(size + ";a\rb\r\n"), bad},
		{"a bare CR behind the size", sizedBy(size + "\r"), bad},
		{"CR CR LF behind the size", sizedBy(size + "\r\r\n"), bad},
		{"LF CR behind the size", sizedBy(size + "\n\r"), bad},
		{"NUL in an extension", sizedBy(size + ";a=\x00\r\n"), bad},
		{"DEL in an extension", sizedBy(size + ";a=\x7f\r\n"), bad},
		{"a vertical tab in an extension", sizedBy(size + ";a=\v\r\n"), bad},
		{"a bare LF behind the last chunk", inChunks(chunk(question) + "0\n\r\n"), bad},
		{"a bare LF as the end", inChunks(chunk(question) + "0\r\n\n"), bad},
		{"two bare LF as the end", inChunks(chunk(question) + "0\n\n"), bad},
		{"a bare CR as the end", inChunks(chunk(question) + "0\r\n\rX"), bad},
		{"no size", sizedBy("\r\n"), bad},
		{"an empty size and an extension", sizedBy(";a\r\n"), bad},
		{"a size with a plus", sizedBy("+" + size + "\r\n"), bad},
		{"a size with a minus", sizedBy("-" + size + "\r\n"), bad},
		{"a size with 0x", sizedBy("0x" + size + "\r\n"), bad},
		{"a size with 0X", sizedBy("0X" + size + "\r\n"), bad},
		{"a size with h", sizedBy(size + "h\r\n"), bad},
		{"a size with an underscore", sizedBy("3_f\r\n"), bad},
		{"a size with a fraction", sizedBy(size + ".0\r\n"), bad},
		{"a size in quotes", sizedBy("\"" + size + "\"\r\n"), bad},
		{"a blank before the size", sizedBy(" " + size + "\r\n"), bad},
		{"a tab before the size", sizedBy("\t" + size + "\r\n"), bad},
		{"a blank behind the size", sizedBy(size + " \r\n"), bad},
		{"a tab behind the size", sizedBy(size + "\t\r\n"), bad},
		{"a blank before an extension", sizedBy(size + " ;a=b\r\n"), bad},
		{"two words as a size", sizedBy(size + " 0\r\n"), bad},
		{"a size that overflows 63 bits", sizedBy("ffffffffffffffff\r\n"), bad},
		{"a size that overflows 64 bits", sizedBy("1000000000000003f\r\n"), bad},
		{"a size of too many zeros", sizedBy(repeat("0", 30) + size + "\r\n"), bad},
		{"a size that is too small", sizedBy("3e\r\n"), bad},
		{"a size that is too large", inChunks("40\r\n" + question + "\r\n0\r\n\r\n"), bad},
		{"no line end behind the data", inChunks(size + "\r\n" + question + "0\r\n\r\n"), bad},
		{"an empty line between chunks", inChunks(chunk(question) + "\r\n0\r\n\r\n"), bad},
		{"a comma between sizes", sizedBy("1,2\r\n"), bad},
		{"a letter that is no digit", sizedBy("3g\r\n"), bad},
		{"digits outside ASCII", sizedBy("\xd9\xa3\r\n"), bad},
		{"NUL behind the size", sizedBy(size + "\x00\r\n"), bad},
		{"an extension without an end", sizedBy(size + ";" + repeat("a", 5000) + "\r\n"), bad},
		{"extensions of many chunks together without an end", inChunks(repeat("1;"+repeat("a", 500)+"\r\n \r\n", 12) + chunk(question) + "0\r\n\r\n"), bad},
		{"a request in the data", inChunks(chunk(hidden) + "0\r\n\r\n"), "400 200"},
	}
}

// trailers are about what may follow the last chunk (section 7.1.2).
func trailers() []row {
	ended := func(lines string) string { return inChunks(chunk(question) + "0\r\n" + lines) }
	return []row{
		{"one", ended("X-A: b\r\n\r\n"), passes},
		{"two", ended("X-A: b\r\nX-C: d\r\n\r\n"), passes},
		{"without a value", ended("X-A:\r\n\r\n"), passes},
		{"a bare LF", ended("X-A: b\n\r\n"), bad},
		{"a bare LF between two", ended("X-A: b\nX-C: d\r\n\r\n"), bad},
		{"a bare LF as the end", ended("X-A: b\r\n\n"), bad},
		{"a bare CR", ended("X-A: b\rc\r\n\r\n"), bad},
		{"a fold", ended("X-A: b\r\n c\r\n\r\n"), bad},
		{"a blank at the start", ended(" X-A: b\r\n\r\n"), bad},
		{"a blank before the colon", ended("X-A : b\r\n\r\n"), bad},
		{"a blank in the name", ended("X A: b\r\n\r\n"), bad},
		{"no colon", ended("X-A\r\n\r\n"), bad},
		{"no name", ended(": b\r\n\r\n"), bad},
		{"NUL", ended("X-A: \x00\r\n\r\n"), bad},
		{"a key", ended("Authorization: Bearer x\r\n\r\n"), bad},
		{"a host", ended("Host: y\r\n\r\n"), bad},
		{"a length", ended("Content-Length: 5\r\n\r\n"), bad},
		{"a coding", ended("Transfer-Encoding: chunked\r\n\r\n"), bad},
		{"a content type", ended("Content-Type: text/plain\r\n\r\n"), bad},
		{"an expectation", ended("Expect: 100-continue\r\n\r\n"), bad},
		{"a request line", ended("GET / HTTP/1.1\r\n\r\n"), bad},
		{"without an end", ended(repeat("X-A: b\r\n", 1000) + "\r\n"), bad},
	}
}
