/* Asks questions about a published context, each in a separate fork.
 *
 *   kvctl run -n 0 --keep notebook '<|system|>Answer from the notebook. The drum is red.<|end|>'
 *   kvd-example-fork notebook '<|user|>What colour is the drum?<|end|><|assistant|>'
 *
 * Compile: cc fork.c $(pkg-config --cflags --libs kvd) */
#include <stdio.h>
#include <string.h>

#include <kvd.h>

static int Show(void* user, const kvd_piece* piece) {
  (void)user;
  return printf("%.*s", (int)piece->text_bytes, piece->text) < 0;
}

static int Ask(kvd_client* client, const char* snapshot, const char* question) {
  kvd_sequence fork = 0;
  kvd_fork_info info;
  kvd_token* tokens = NULL;
  kvd_generate_params params;
  kvd_generate_params_init(&params, sizeof params);
  params.temperature = 0.0f;
  int code =
      kvd_attach(client, snapshot, &fork, &info, NULL); /* takes microseconds: no cell is copied */
  if (code == KVD_OK) {
    code = kvd_tokenize(client, question, strlen(question), KVD_PARSE_SPECIAL, &tokens,
                        &params.token_count, NULL);
  }
  params.tokens = tokens;
  if (code == KVD_OK) code = kvd_generate(client, fork, &params, Show, NULL, NULL, NULL);
  if (code != KVD_OK) fprintf(stderr, "%s: %s\n", kvd_code_name(code), kvd_error_message());
  kvd_free(tokens);
  if (fork != 0) kvd_sequence_drop(client, fork, 0, NULL);
  printf("\n");
  return code;
}

int main(int argument_count, char** arguments) {
  kvd_client* client = NULL;
  if (argument_count < 3)
    return fprintf(stderr, "usage: %s SNAPSHOT QUESTION...\n", arguments[0]), 2;
  if (kvd_connect(NULL, &client) != KVD_OK) return fprintf(stderr, "%s\n", kvd_error_message()), 1;
  int failed = 0;
  for (int i = 2; i < argument_count; ++i)
    failed |= Ask(client, arguments[1], arguments[i]) != KVD_OK;
  kvd_close(client);
  return failed;
}
