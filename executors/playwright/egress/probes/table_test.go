package probes

// An end is how a probe ends.
type end int

const (
	denied end = iota // the guard refuses it and says so
	silent            // the browser gives up by itself: the script returns 0
)

// A probe is one way to make the browser reach an address. In its address and
// script, {H} is the target's host, {T} its http, {S} its https, {W} its ws
// and {X} its wss address. The target is one of the probe's own, 127.1.0.N,
// unless it says otherwise.
type probe struct {
	name string
	open string // address to go to; "": the site
	js   string // body of an async function that runs in the site's page
	host string // another target, {N} is the probe's number
	end  end    // behind the guard
	lone bool   // ends silently in a namespace, where there is no network card to use

	// again opens the address once more in another context behind the same
	// lane. Contexts share no cache of names; within one, Chromium keeps an
	// answer for a minute.
	again bool
}

// addresses are spellings and names of what no page may reach.
var addresses = []string{
	"http://127.0.0.1/", "http://localhost/", "http://x.localhost/", "http://[::1]/", "http://[::]/", "http://0.0.0.0/", "http://0/",
	"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/",
	"http://127.0.0.1./", "http://localhost./", "http://\uff11\uff12\uff17.0.0.1/", "http://\u2460\u2461\u2466.0.0.1/", "http://user@127.0.0.1/",
	"http://" + metaAddr + "/", "http://" + privAddr + "/",
	"http://loop.test/", "http://priv.test/", "http://six.test/", "http://mapped.test/", "http://meta.test/",
	"https://127.0.0.1/", "https://[::1]/", "https://" + privAddr + "/", "https://loop.test/", "https://six.test/",
	"view-source:http://127.0.0.1/",
}

// table is every probe but those of addresses.
var table = []probe{
	{name: "redirect", open: "http://site.test/redirect?to={T}/"},
	{name: "redirect to https", open: "http://site.test/redirect?to={S}/"},
	{name: "meta refresh", open: "http://site.test/meta?to={T}/"},
	{name: "location", open: "http://site.test/location?to={T}/"},
	{name: "report of a content policy", open: "http://site.test/csp?to={T}/"},
	{name: "rebinding", open: "{T}/close", host: "p{N}.rebind.test", again: true},
	{name: "form post", js: `const f = document.createElement('form'); f.method = 'post'; f.action = '{T}/'; document.body.append(f); f.submit()`},
	{name: "iframe", js: `const e = document.createElement('iframe'); e.src = '{T}/'; document.body.append(e)`},
	{name: "iframe srcdoc", js: `const e = document.createElement('iframe'); e.srcdoc = '<img src="{T}/">'; document.body.append(e)`},
	{name: "popup", js: `window.open('{T}/')`},
	{name: "object", js: `const e = document.createElement('object'); e.data = '{T}/'; document.body.append(e)`},
	{name: "embed", js: `const e = document.createElement('embed'); e.src = '{T}/'; document.body.append(e)`},
	{name: "video", js: `const e = document.createElement('video'); e.src = '{T}/'; e.load(); document.body.append(e)`},
	{name: "audio", js: `new Audio('{T}/').load()`},
	{name: "style sheet", js: `const e = document.createElement('link'); e.rel = 'stylesheet'; e.href = '{T}/'; document.head.append(e)`},
	{name: "style import", js: `const e = document.createElement('style'); e.textContent = '@import "{T}/";'; document.head.append(e)`},
	{name: "style background", js: `document.body.style.background = 'url({T}/)'`},
	{name: "font", js: `await new FontFace('f', 'url({T}/)').load().catch(() => 0)`},
	{name: "image", js: `new Image().src = '{T}/'`},
	{name: "image over https", js: `new Image().src = '{S}/'`},
	{name: "image by name", host: "p{N}.loop.test", js: `new Image().src = '{T}/'`},
	{name: "svg image", js: `document.body.innerHTML = '<svg><image href="{T}/" width="9" height="9"/></svg>'`},
	{name: "script", js: `const e = document.createElement('script'); e.src = '{T}/'; document.body.append(e)`},
	{name: "module", js: `await import('{T}/').catch(() => 0)`},
	{name: "fetch", js: `await fetch('{T}/', {mode: 'no-cors'}).catch(() => 0)`},
	{name: "fetch post", js: `await fetch('{T}/', {mode: 'no-cors', method: 'POST', body: 'x'}).catch(() => 0)`},
	{name: "fetch keepalive", js: `await fetch('{T}/', {mode: 'no-cors', keepalive: true}).catch(() => 0)`},
	{name: "fetch with preflight", js: `await fetch('{T}/', {method: 'PUT', headers: {'x-a': '1'}}).catch(() => 0)`},
	{name: "XMLHttpRequest", js: `const x = new XMLHttpRequest(); x.open('GET', '{T}/'); x.send()`},
	{name: "beacon", js: `navigator.sendBeacon('{T}/', 'x')`},
	{name: "ping", js: `const a = document.createElement('a'); a.href = '#x'; a.ping = '{T}/'; document.body.append(a); a.click()`},
	{name: "event stream", js: `new EventSource('{T}/')`},
	{name: "worker", js: `new Worker('/js?to=' + encodeURIComponent("fetch('{T}/', {mode: 'no-cors'})"))`},
	{name: "worker of a blob", js: `new Worker(URL.createObjectURL(new Blob(["fetch('{T}/', {mode: 'no-cors'})"])))`},
	{name: "worker with importScripts", js: `new Worker('/js?to=' + encodeURIComponent("importScripts('{T}/')"))`},
	{name: "worker with WebSocket", js: `new Worker('/js?to=' + encodeURIComponent("new WebSocket('{W}/')"))`},
	{name: "shared worker", js: `new SharedWorker('/js?to=' + encodeURIComponent("fetch('{T}/', {mode: 'no-cors'})"))`},
	{name: "prefetch", js: `const e = document.createElement('link'); e.rel = 'prefetch'; e.href = '{T}/'; document.head.append(e)`},
	{name: "preload", js: `const e = document.createElement('link'); e.rel = 'preload'; e.as = 'image'; e.href = '{T}/'; document.head.append(e)`},
	{name: "module preload", js: `const e = document.createElement('link'); e.rel = 'modulepreload'; e.href = '{T}/'; document.head.append(e)`},
	{name: "WebSocket", js: `new WebSocket('{W}/')`},
	{name: "WebSocket over TLS", js: `new WebSocket('{X}/')`},
	{name: "service worker, fetch", open: "https://site.test/", js: `await navigator.serviceWorker.register('/js?to=' + encodeURIComponent("fetch('{S}/', {mode: 'no-cors'})"))`},
	{name: "service worker, WebSocket", open: "https://site.test/", js: `await navigator.serviceWorker.register('/js?to=' + encodeURIComponent("new WebSocket('{X}/')"))`},
	{name: "TURN over TCP", lone: true, host: "198.51.100.{N}", js: turn},
	{name: "WebTransport", open: "https://site.test/", host: "198.51.100.{N}", end: silent, js: `await new WebTransport('{S}/').ready.catch(() => 0); return 0`},
	{name: "STUN", host: "198.51.100.{N}", end: silent, js: stun},
	{name: "WebRTC without server: mDNS", host: "224.0.0.251", end: silent, js: mdns},
}

// gather returns how many ICE candidates a peer connection finds.
const gather = `let n = 0;
	pc.onicecandidate = e => { if (e.candidate && e.candidate.candidate) n++ };
	pc.createDataChannel('x');
	await pc.setLocalDescription(await pc.createOffer());
	await new Promise(done => {
		const look = () => pc.iceGatheringState === 'complete' && done();
		pc.onicegatheringstatechange = look; look();
		setTimeout(done, 5000); // without any network card gathering does not end
	});
	return n`

const (
	stun = `const pc = new RTCPeerConnection({iceServers: [{urls: 'stun:{H}:3478'}]}); ` + gather
	turn = `const pc = new RTCPeerConnection({iceServers: [{urls: 'turn:{H}:443?transport=tcp', username: 'u', credential: 'p'}]}); ` + gather
	mdns = `const pc = new RTCPeerConnection(); ` + gather
)

// inert start nothing in the headless shell, guarded or not; they are tried
// behind the guard all the same.
var inert = []probe{
	{name: "preconnect", end: silent, js: `const e = document.createElement('link'); e.rel = 'preconnect'; e.href = '{T}/'; document.head.append(e); ` + frames},
	{name: "dns-prefetch", host: "p{N}.loop.test", end: silent, js: `const e = document.createElement('link'); e.rel = 'dns-prefetch'; e.href = '{T}/'; document.head.append(e); ` + frames},
	{name: "fetch of a file", end: silent, js: `try { return (await (await fetch('file:///etc/passwd')).text()).length } catch (e) { return 0 }`},
	{name: "XMLHttpRequest of a file", end: silent, js: `try { const x = new XMLHttpRequest(); x.open('GET', 'file:///etc/passwd', false); x.send(); return x.responseText.length } catch (e) { return 0 }`},
	{name: "popup of a file", end: silent, js: `const w = window.open('file:///etc/passwd'); ` + frames},
}

const frames = `await new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f))); return 0`
