// The routes of LoRA adapters: GET and POST /lora-adapters. kvd has no adapters: the list is empty.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddLoraRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
