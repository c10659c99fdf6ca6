// Package auth owns API keys: their format, the digests that stand for them,
// the records of the key store on Redis, and the key API of the admin listener.
//
// # Promises
//
//   - The plaintext of a key exists in the answer that hands it out and nowhere
//     else: not in the store, a log line or an error.
//   - Nothing is hashed or looked up that has not the exact shape of a key, and
//     checking and digesting allocate nothing.
//   - A store that cannot answer is ErrStore, never ErrUnknown.
//   - Every key that works can be found by List and stopped by Revoke; a crash
//     between two writes leaves nothing that works.
//
// # Layout of the store
//
// <svc> is the service word. What one request needs lies in the hash slot of
// the key's owner, so that one script can decide on key and limits together,
// on Redis Cluster too. Type Layout makes these names.
//
//	<svc>:digest:<64 hex>      string "<id> <owner>", never changed
//	<svc>:{<owner>}:key:<id>   hash: name, last4, plan, digest, pepper, created,
//	                           expires, revoked, origin, used, lifetime
//	<svc>:{<owner>}:keys       set of the ids of all keys of the owner
//	<svc>:owners               set of all owners that ever had a key
//	<svc>:keyid:<id>           string "<owner>"
//	<svc>:marker               string, random, written when the store was new
//
// Times are Unix milliseconds of Redis's own clock; 0 or absent means none. A
// key is over when expires is not zero and not later than now.
//
// # Order of writes
//
// Digest, id and owner's records lie in different slots, so there is no
// transaction over them. Create writes <svc>:keyid, <svc>:owners and
// <svc>:digest first and then, in one script, the hash and the owner's set.
// The hash is what makes a key work. Before it exists the digest points at
// nothing and nobody has been told the key; once it exists the key is listed.
// A crash in between leaves a few orphaned names of about 300 bytes.
//
// A dead key stays listed for Retention after its expiry or revocation. Then
// its hash, digest and id expire, and the key becomes an unknown one.
//
// # Reading
//
// For a digest that is not known yet, read <svc>:digest and <svc>:marker
// together; the value may be kept for ever. Then read the hash, in the script
// that also decides the limits. What is absent means:
//
//	digest absent, marker as remembered   unknown key: 401
//	digest absent, marker gone or other   the store lost its data: ErrStore
//	digest there, hash absent             read the digest again, past any cache:
//	                                      absent now, an unknown key; still there,
//	                                      the owner's slot lost data: ErrStore
package auth
