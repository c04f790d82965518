// Package engines installs inference engines, models and sample data: what the
// pinned catalogue of this build names, and models that an administrator adds.
//
// The way of an installation:
//
//	catalogue.yaml ─► Plan ─► fetch (pip, npm, apt-get, or an offline folder)
//	     ─► sha256 of the archive ─► unpack beside the target, each file checked
//	     ─► rename into place; what was there before stays until then
//
// No registry is named here: pip, npm and apt-get are asked as the machine has
// them set up. Archives are kept in the user's cache, so that a run that was
// interrupted goes on with what it had. Two runs wait for each other. Where
// things are is package executors/engines' to say.
package engines
