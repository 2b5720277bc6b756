/* Compiles kvd.h as C11 without other headers, and calls its functions as a C program does. */
#include "client/kvd.h"

int kvd_c11_round_trip(const char* socket_path);

int kvd_c11_round_trip(const char* socket_path) {
  kvd_connect_options options;
  kvd_client* client = NULL;
  kvd_sequence sequence = 0;
  uint64_t nanoseconds = 0;
  int code;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path;
  code = kvd_connect(&options, &client);
  if (code != KVD_OK) return code;
  code = kvd_ping(client, 16, &nanoseconds, NULL);
  if (code == KVD_OK) code = kvd_sequence_create(client, NULL, &sequence, NULL);
  if (code == KVD_OK) code = kvd_sequence_drop(client, sequence, 0, NULL);
  kvd_close(client);
  return code;
}
