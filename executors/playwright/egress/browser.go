package egress

// BrowserArgs are the switches that keep Chromium from going around its
// proxy in ModeFlags: no QUIC, no background traffic, and WebRTC without UDP
// outside the proxy. The last one is the one that a proxy alone does not
// replace.
func BrowserArgs() []string {
	return []string{
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic",
		"--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
	}
}

// BypassNothing is the bypass list to set beside Lane.URL: it takes loopback
// addresses off the list of what Chromium reaches without its proxy.
const BypassNothing = "<-loopback>"
