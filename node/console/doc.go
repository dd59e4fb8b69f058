// Package console is the web console of a node: pages that show the cluster, and a box for
// statements.
//
// It knows no part of the node. All that it shows it asks for by SQL, as the database user who has
// logged in, over connections to the SQL server of the same node. So the accounts, their limits and
// their rights are those of SQL: a user who may not read a table sees the error in its place.
//
// A login makes four connections, three for what the pages show and one for the box; fewer if the
// account is bound to fewer, but two at least. They last as long as the session, and the password
// is forgotten once they are made. The browser holds a cookie with a random name of the session,
// which no script can read, and a token that it has to send with whatever is no GET.
//
// What comes from the cluster is text of somebody: names of databases, users, regions, statements.
// The pages make text nodes of it and never markup; the headers forbid scripts of any other origin,
// scripts and styles within pages, and sinks that take markup (trusted types).
//
// The caller bounds how long headers may take to come. This package bounds bodies and the time in
// which they come, answers, logins that fail, sessions and statements.
package console
