/* A planner and its workers: the context is computed once, and each worker continues a fork of it
 * at the same time as the others. Then the planner continues its own context with their answers.
 *
 *   kvd-example-planner CONTEXT CONCLUSION TASK...
 *
 * CONTEXT is the system message of all. Compile: cc planner.c $(pkg-config --cflags --libs kvd) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvd.h>

enum { kWorkersMax = 64, kTextMax = 4096 };

struct worker {
  const char* task;
  kvd_sequence fork;
  kvd_request request;
  char answer[kTextMax];
};

static int Check(int code) {
  if (code != KVD_OK) fprintf(stderr, "%s: %s\n", kvd_code_name(code), kvd_error_message());
  return code;
}

static void Append(char* text, const char* more, size_t more_bytes) {
  const size_t used = strlen(text);
  const size_t room = kTextMax - 1 - used;
  memcpy(text + used, more, more_bytes < room ? more_bytes : room);
}

/* Gives the tokens of a chat: of the context alone, or also of a message and the beginning of the
 * answer. The model's own chat template writes the text. */
static int ChatTokens(kvd_client* client, const char* context, const char* message,
                      kvd_token** tokens, size_t* count) {
  const kvd_chat_message messages[2] = {{"system", context}, {"user", message}};
  char* text = NULL;
  size_t text_bytes = 0;
  int code = kvd_chat(client, messages, message == NULL ? 1 : 2,
                      message == NULL ? 0 : KVD_ADD_ASSISTANT, &text, &text_bytes, NULL);
  if (code == KVD_OK) {
    code = kvd_tokenize(client, text, text_bytes, KVD_PARSE_SPECIAL, tokens, count, NULL);
  }
  kvd_free(text);
  return Check(code);
}

/* Starts the answer to a message in a sequence that holds the context, so that only the tokens
 * behind the context are computed. */
static int Ask(kvd_client* client, kvd_sequence sequence, const char* context, size_t context_count,
               const char* message, kvd_request* request) {
  kvd_token* tokens = NULL;
  size_t count = 0;
  int code = ChatTokens(client, context, message, &tokens, &count);
  if (code == KVD_OK) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = tokens + context_count;
    params.token_count = count - context_count;
    params.temperature = 0.0f;
    params.predict_max = 256;
    code = Check(kvd_generate(client, sequence, &params, NULL, NULL, NULL, request));
  }
  kvd_free(tokens);
  return code;
}

/* Takes the pieces of all workers as they arrive, until each worker has answered. */
static int TakeAnswers(kvd_client* client, struct worker* workers, size_t count) {
  kvd_request requests[kWorkersMax];
  size_t left = count;
  for (size_t i = 0; i < count; ++i) requests[i] = workers[i].request;
  while (left > 0) {
    size_t at = 0;
    kvd_piece piece;
    int code = kvd_wait_any(client, requests, count, -1, &at);
    if (code == KVD_OK) code = kvd_generate_next(client, requests[at], -1, &piece, NULL);
    if (code != KVD_OK) return Check(code);
    if (piece.kind == KVD_PIECE_TOKENS) Append(workers[at].answer, piece.text, piece.text_bytes);
    if (piece.kind == KVD_PIECE_END) --left;
  }
  return KVD_OK;
}

static int Plan(kvd_client* client, const char* context, const char* conclusion,
                struct worker* workers, size_t count) {
  kvd_sequence planner = 0;
  kvd_sequence forks[kWorkersMax];
  kvd_token* tokens = NULL;
  size_t context_count = 0;
  kvd_generate_params params;
  kvd_generate_result computed;
  if (ChatTokens(client, context, NULL, &tokens, &context_count) != KVD_OK) return 1;
  kvd_generate_params_init(&params, sizeof params);
  params.tokens = tokens;
  params.token_count = context_count;
  params.predict_max = 0; /* computes the context and draws no token */
  int code = kvd_sequence_create(client, NULL, &planner, NULL);
  if (code == KVD_OK) code = kvd_generate(client, planner, &params, NULL, NULL, &computed, NULL);
  kvd_free(tokens);
  if (code == KVD_OK) {
    code = kvd_sequence_fork(client, planner, -1, (uint32_t)count, NULL, forks, NULL, NULL);
  }
  if (Check(code) != KVD_OK) return 1;
  printf("context: %zu tokens, %u of them computed\n", context_count, computed.prompt_computed);
  for (size_t i = 0; i < count; ++i) {
    workers[i].fork = forks[i];
    code = Ask(client, forks[i], context, context_count, workers[i].task, &workers[i].request);
    if (code != KVD_OK) return 1;
  }
  if (TakeAnswers(client, workers, count) != KVD_OK) return 1;
  struct worker last = {conclusion, planner, 0, ""};
  static char message[kTextMax];
  for (size_t i = 0; i < count; ++i) {
    printf("%s %s\n", workers[i].task, workers[i].answer);
    Append(message, workers[i].answer, strlen(workers[i].answer));
    Append(message, " ", 1);
  }
  Append(message, conclusion, strlen(conclusion));
  if (Ask(client, planner, context, context_count, message, &last.request) != KVD_OK) return 1;
  if (TakeAnswers(client, &last, 1) != KVD_OK) return 1;
  printf("%s %s\n", conclusion, last.answer);
  return 0;
}

int main(int argument_count, char** arguments) {
  static struct worker workers[kWorkersMax];
  kvd_client* client = NULL;
  const int count = argument_count - 3;
  if (count < 1 || count > kWorkersMax) {
    return fprintf(stderr, "usage: %s CONTEXT CONCLUSION TASK...\n", arguments[0]), 2;
  }
  for (int i = 0; i < count; ++i) workers[i].task = arguments[3 + i];
  if (Check(kvd_connect(NULL, &client)) != KVD_OK) return 1;
  const int failed = Plan(client, arguments[1], arguments[2], workers, (size_t)count);
  kvd_close(client);
  return failed;
}
