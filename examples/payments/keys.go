package main

import "sync"

// keyID names a key within its endpoint.
type keyID struct{ endpoint, key string }

// keyState says what the service knows of a key.
type keyState int

const (
	keyFree       keyState = iota // the caller now has it and must finish or release it
	keyInProgress                 // another request of the same key is at work
	keyDone                       // the effect exists
	keyMismatch                   // the key belongs to another body
)

// keys remembers which effect each key stands for. Only effects survive a
// restart: a request that was in progress then has had no effect.
type keys struct {
	mu      sync.Mutex // guards both maps
	effects map[keyID]Entry
	working map[keyID]string // digest
}

func newKeys(entries []Entry) *keys {
	k := &keys{effects: map[keyID]Entry{}, working: map[keyID]string{}}
	for _, e := range entries {
		if e.Kind == KindEffect && e.Key != "" {
			k.effects[keyID{e.Endpoint, e.Key}] = e
		}
	}
	return k
}

// begin takes the arrival's key, or says why it cannot be taken; the entry is
// the effect's where there is one.
func (k *keys) begin(arrival Entry) (Entry, keyState) {
	id := keyID{arrival.Endpoint, arrival.Key}
	k.mu.Lock()
	defer k.mu.Unlock()
	if effect, ok := k.effects[id]; ok {
		if effect.Digest != arrival.Digest {
			return Entry{}, keyMismatch
		}
		return effect, keyDone
	}
	if digest, ok := k.working[id]; ok {
		if digest != arrival.Digest {
			return Entry{}, keyMismatch
		}
		return Entry{}, keyInProgress
	}
	k.working[id] = arrival.Digest
	return Entry{}, keyFree
}

// finish binds the key to its effect for ever.
func (k *keys) finish(effect Entry) {
	id := keyID{effect.Endpoint, effect.Key}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.working, id)
	k.effects[id] = effect
}

// release gives the key up: there was no effect.
func (k *keys) release(arrival Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.working, keyID{arrival.Endpoint, arrival.Key})
}

// find answers a query.
func (k *keys) find(endpoint, key string) (Entry, keyState) {
	id := keyID{endpoint, key}
	k.mu.Lock()
	defer k.mu.Unlock()
	if effect, ok := k.effects[id]; ok {
		return effect, keyDone
	}
	if _, ok := k.working[id]; ok {
		return Entry{}, keyInProgress
	}
	return Entry{}, keyFree
}
