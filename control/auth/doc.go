// Package auth decides who may use the control plane's HTTP API.
//
// Two credentials are known: the internal key in the header X-Internal-API-Key
// (always an admin) and a bearer JWT signed with HS256, which carries a role.
// Role admin may do everything, role user may read. There is no mode without
// authentication and no default secret: LoadOrCreateSecret makes one on the
// first start and keeps it in a file that only its owner can read.
package auth
