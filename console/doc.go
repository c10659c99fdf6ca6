// Package console owns the web pages: people sign in, approve device logins,
// and look after their keys; admins see everybody's keys, usage, pools, plans
// and the audit log.
//
// It works without JavaScript, which adds a copy button and pages that refresh
// themselves. What it shows of keys, limits and pools it gets through the
// functions of Options.
//
// # Promises
//
//   - Nothing is changed by a GET, nor by a form that another site sent: a POST
//     needs our own origin and a token that is bound to the session, and that
//     of an approval to the code too.
//   - No page can be framed, and none runs a script or uses a style that is not
//     a file of ours.
//   - Of a session the store holds a digest only, and whoever can write the
//     store, but has no pepper, can make neither a session nor an admin.
//   - Passwords are kept as argon2id; 10 wrong ones in 10 minutes for each
//     address, 20 for each account and 100 a minute in all are looked at.
//   - Every key and sign-in event is in the audit log, which keeps the newest
//     and no more than its bound.
//
// # Layout of the store
//
//	<svc>:console:session:<sha256>  sealed session, expires by itself
//	<svc>:console:person:<owner>    sealed record of a person
//	<svc>:console:people            set of all owners that have one
//	<svc>:console:form:<token>      a form that makes a key and was sent
//	<svc>:console:audit             stream of events
package console
