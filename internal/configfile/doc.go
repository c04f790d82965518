// Package configfile fills a struct from a YAML file, drop-in files, environment
// variables and flags, and remembers where each value came from.
//
// Later layers win:
//
//  1. the values that the struct holds already (the defaults)
//  2. the file, for example agent.yaml
//  3. agent.d/*.yaml beside it, in lexical order
//  4. what sections read from other variables themselves (see EnvApplier)
//  5. AUTOBOT_<KEY> variables: the key in upper case, dots and dashes as "_",
//     so redis.url is AUTOBOT_REDIS_URL; for a secret also AUTOBOT_<KEY>_FILE,
//     the name of a file that holds it. An empty variable counts as not set.
//  6. flags
//
// Sections are merged key by key; lists are replaced as a whole.
//
// The format is strict: an unknown key, a key given twice or a value of the
// wrong kind is an error with its place, and all of them are reported at once.
// Anchors, aliases, tags and several documents in a file are refused: each
// value stands where it is used. "key:" without a value leaves the default.
//
// Values from files are placed by the line they stand on, which general merging
// libraries forget as soon as they have merged maps. That is why the layers are
// applied to the struct directly, from the syntax tree of goccy/go-yaml.
//
// Secrets appear in no error, and masked in Entries.
package configfile
