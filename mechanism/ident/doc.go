// Package ident says who a node or a client is, by certificates of the cluster's own authority.
//
// The authority (CA) is a folder, see [CA]: its certificate and key, the administrator's
// certificate, and tokens for nodes that want to join. A node keeps its own certificate and key in
// its store. A certificate names one [Name], in a URI among its alternative names:
//
//	godwit://node/UUID/REGION	the node whose store has this UUID, in this region
//	godwit://client/NAME		somebody who administers the cluster
//
// Which node id a UUID has is in the topology: it is given when the cluster is made, or when the
// node joins it. So a certificate can be made before that, it never changes, and it is of no use in
// another cluster of the same authority. Who accepts a connection compares all three: the id that
// the peer gives, the UUID of that id in the topology, and the one in the certificate.
//
// Duties of the caller:
//
//   - A TLS handshake with the configurations of [Files] proves that the peer holds the key of a
//     certificate of the authority, of the right role. That it is the node which it says it is, is
//     for the caller to check, by [Peer].
//   - A token is as good as a certificate until it is used: it must be carried in secret.
//
// Only crypto/tls and crypto/x509 encrypt, sign and verify. Host names are not looked at: a node is
// known by its UUID, wherever it is.
package ident
