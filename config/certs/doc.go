// Package certs makes TLS settings of the files that the configuration names.
//
// It promises that certificates and keys are read again when their files
// change, with the next handshake and at most a second late, and that the last
// good ones stay in use while the files cannot be used. Connections that are
// open are left as they are.
package certs
