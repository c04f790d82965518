// Package egress decides what a browser, or any other client that follows
// links of strangers, may reach.
//
// A Policy says what is permitted: by default public addresses on the web's
// ports, and what the administrator lists beside them. A task may narrow its
// policy and never widen it. A Guard enforces policies. It offers three doors:
//
//   - Guard.CheckURL judges an address before a navigation begins.
//   - Guard.DialContext resolves a name once, checks every address and dials
//     the one that was checked. http.Transport can use it.
//   - Guard.Open starts a Lane: a forward proxy on a loopback port of its own
//     for one task, with its own limits and its own list of what was denied.
//
// What is refused is a *Denial. A name that does not resolve or a server that
// does not answer is no denial: the proxy answers 502 then, and 403 for a
// denial, both marked by the header HeaderMark. A page behind https never
// shows that answer to the browser, so callers ask Lane.Denials.
//
// A proxy binds only what goes through it. Namespace puts a browser into a
// network namespace where nothing but the guard's listeners exists.
package egress
