// Package docker holds nothing but the test of docker-compose.yml, behind the build tag docker: it
// starts the whole installation of the compose file, with every image built FROM scratch.
package docker
