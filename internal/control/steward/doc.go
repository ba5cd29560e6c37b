// Package steward keeps the pools of the leading scheduler as the custom resources of a Kubernetes cluster describe them: it
// watches WeirTree and WeirPool objects, applies what they mean ([manifest.Decide]) to the store, and writes their status.
// It decides nothing. While the custom resources are not installed it only looks now and then whether they are.
package steward
