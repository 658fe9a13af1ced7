/* Loads the model named on the command line, writes what follows some text, and meets an error on purpose. */
#include <fourfold/c.h>
#include <stdio.h>
#include <string.h>

static int print(void* user, int32_t id, const char* text, size_t bytes) {
  (void)id;
  *(size_t*)user += 1;
  fwrite(text, 1, bytes, stdout);
  return 0;
}

int main(int argc, char** argv) {
  ff_error error;
  ff_model* model = NULL;
  ff_session* session = NULL;
  ff_generate_options options;
  ff_finish finish;
  int32_t ids[64];
  size_t count = 0, tokens = 0;
  const char* prompt = "The capital of France is";

  if (argc != 2) return 2;
  if (ff_model_load("no-such-file.gguf", &model, &error) != FF_NOT_FOUND || !strstr(error.message, "no-such-file.gguf"))
    return 3;

  if (ff_model_load(argv[1], &model, &error) != FF_OK) goto failed;
  if (ff_tokenize(model, prompt, strlen(prompt), FF_TOKENIZE_BOS, ids, 64, &count, &error) != FF_OK) goto failed;
  if (ff_session_create(model, NULL, &session, &error) != FF_OK) goto failed;
  ff_model_free(model); /* the session keeps what it needs */
  ff_generate_options_init(&options);
  options.temperature = 0;
  options.max_tokens = 8;
  if (ff_generate(session, ids, count, &options, print, &tokens, &finish, &error) != FF_OK) goto failed;
  printf("\n%s: %zu tokens\n", ff_version(), tokens);
  ff_session_free(session);
  return tokens > 0 ? 0 : 4;

failed:
  fprintf(stderr, "error %d: %s\n", error.status, error.message);
  return 1;
}
