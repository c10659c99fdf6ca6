// Package body reads what the gateway needs from the JSON body of an inference
// request, and changes the few members that a replica has to see differently,
// without parsing the body into values and without copying it.
//
// # What Parse promises
//
// A body that passes is one JSON object by RFC 8259, all of it checked: no NaN
// or Infinity, nothing behind the object, no byte order mark, no raw control
// characters, at most 256 levels and 256 members at the top. UTF-8 is checked
// in the model's name only. Python decodes strictly, so that vLLM answers 400
// to the rest itself, and no byte above 0x7f can be taken for syntax.
//
// What Parse reads, vLLM reads the same way. Python's parser takes the last of
// members with the same name, so one that the gateway acts on may be there
// once only, however it is spelled (\u006dodel is model); that holds for the
// role and content of a message and for stream_options.include_usage too.
// Where pydantic converts ("5", true or "yes" for a number or a boolean) the
// body is refused; whole numbers may be written 2.0 or 2e3. null means absent.
// The rules on values are those of OpenAI's API; vLLM's own checks come after.
//
// # Why a scanner of its own
//
// Measured once on 1 MiB bodies (GB/s; 2 cores of an AMD EPYC, Go 1.26; each library reading
// model, stream, max_tokens and the length of each message's content):
//
//	                          prose  escaped  images  200 turns  allocs
//	this package               8.6     2.7     8.7      7.8       0
//	gjson, ValidBytes first    0.9     0.5     1.1      0.5       0
//	gjson                      1.4     0.4     2.1      0.7       0
//	jsonparser                 2.0     0.9     2.0      1.9       0
//	sonic ast, Valid first     7.1     3.9     6.4      4.5       5
//	fastjson                  15.1     1.1    18.4     16.4       0
//	jsontext (tokens only)     3.0     1.8     3.0      1.6       1
//	encoding/json, struct      0.4     0.4     0.2      0.4      15
//
// A prompt of nothing but \uXXXX takes it to 1.5, an array of token ids to 0.5;
// a short chat takes 0.25 us.
//
// Of these only gjson's ValidBytes, jsontext and encoding/json refuse all that
// is not JSON. sonic's Valid and Skip let bad escapes and control characters
// pass, fastjson those and NaN (and it copies the body), jsonparser trailing
// garbage too. Only jsontext validates and tells positions in one pass; in Go
// 1.26 it is an experiment, and it refuses either every duplicate or none.
package body
