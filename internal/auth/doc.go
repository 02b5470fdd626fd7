// Package auth makes the table of rights (internal/jet) into what a NATS server believes: an operator, an
// account with a scoped signing key for each role, and credentials.
//
// The rights of a role lie in its signing key, on the server. A credential has a name only, which the server
// puts into the subjects; whoever holds it, or even the signing key of its role, can get no other right from it.
// So credentials need not be made anew when a version of Toolwire changes the rights of a role.
//
// # Files
//
// A directory, 0700, all files in it 0600:
//
//	operator.jwt, account.jwt, system.jwt   public: what a server needs
//	nats-server.conf                        the same, for a NATS server's configuration
//	keys/*.nk                               secret: the operator, the accounts, and one for each role
//	users/<name>.json                       public: who has been given a credential; a name has one role
//	creds/<name>.creds                      secret: the credentials, unless written elsewhere
package auth
