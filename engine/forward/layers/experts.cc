#include "engine/forward/layers/experts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/forward/compute/row_functions.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/forward/pass/row_buffer.h"

namespace kvd {

// ---- expert choice

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();
constexpr float kWeightSumMin = 0x1p-14f;  // the smallest normal f16, as in llama.cpp

// In place: x[i] = e^x[i] / sum of e^x.
void Softmax(std::span<float> x) {
  const float largest = *std::ranges::max_element(x);
  double sum = 0;
  for (float& value : x) {
    value = PortableExp(std::min(value - largest, 0.0f));
    sum += value;
  }
  const auto inverse = static_cast<float>(1.0 / sum);
  for (float& value : x) value *= inverse;
}

// Excludes the experts of all groups except the best groups. Groups are compared by the sum of the
// two largest numbers of each group in `selection`.
void KeepBestGroups(const ExpertConfig& config, std::span<float> selection) {
  const std::size_t size = config.count / config.group_count;
  std::uint32_t kept[ExpertConfig::kCountMax / 2];
  float scores[ExpertConfig::kCountMax / 2];
  for (std::uint32_t group = 0; group < config.group_count; ++group) {
    float first = kNever, second = kNever;
    for (const float value : selection.subspan(group * size, size)) {
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    kept[group] = group;
    scores[group] = first + second;
  }
  std::ranges::sort(std::span(kept, config.group_count), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  for (std::uint32_t i = config.groups_used; i < config.group_count; ++i) {
    std::ranges::fill(selection.subspan(kept[i] * size, size), kNever);
  }
}

}  // namespace

void ChooseExperts(const ExpertConfig& config, std::span<const float> logits,
                   const float* selection_bias, std::span<float> probabilities,
                   std::span<float> selection, std::span<ChosenExpert> chosen) {
  if (config.gating == ExpertGating::kSigmoid) {
    Logistics(logits.data(), logits.size(), probabilities.data());
  } else {
    std::ranges::copy(logits, probabilities.begin());
    if (config.gating == ExpertGating::kSoftmax) Softmax(probabilities);
  }
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const float value = probabilities[i] + (selection_bias == nullptr ? 0.0f : selection_bias[i]);
    selection[i] = std::isnan(value) ? kNever : value;
  }
  if (config.group_count > 1) KeepBestGroups(config, selection);

  float weights[ExpertConfig::kUsedMax];
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::size_t best = selection.size();
    for (std::size_t e = 0; e < selection.size(); ++e) {
      if (std::isnan(selection[e])) continue;
      if (best == selection.size() || selection[e] > selection[best]) best = e;
    }
    chosen[i].expert = static_cast<std::uint32_t>(best);
    weights[i] = probabilities[best];
    selection[best] = kTaken;
  }

  const std::span<float> used(weights, chosen.size());
  if (config.gating == ExpertGating::kSoftmaxOfChosen) Softmax(used);
  if (config.is_normalised) {
    float sum = 0.0f;
    for (const float weight : used) sum += weight;
    sum = std::max(sum, kWeightSumMin);
    for (float& weight : used) weight /= sum;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i].weight = used[i] * config.scale;
}

// ---- experts

namespace {

// Chooses the experts of each row and sets work.chosen.
void Route(ForwardPass& pass, const ExpertWeights& weights, const RowBuffer& x) {
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kRouter);
  const ExpertConfig& config = pass.config().experts;
  ExpertWork& work = pass.expert_work();
  const RowBuffer& logits = pass.Rows(Scratch::kRouterLogits, {config.count});
  const RowBuffer& scratch = pass.Rows(Scratch::kRouterScratch, {2, config.count});
  pass.Project(weights.router, x, logits);
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      ChooseExperts(config, {logits[row], config.count}, weights.selection_bias,
                    {scratch[row], config.count}, {scratch[row] + config.count, config.count},
                    {work.chosen.data() + row * config.used, config.used});
    }
  });
}

// Sets slots, slot_rows and starts of `work`: the choices sorted by expert, then by row.
void SortByExpert(const ExpertConfig& config, std::size_t row_count, ExpertWork& work) {
  const std::size_t slot_count = row_count * config.used;
  std::ranges::fill(work.starts, 0);
  for (std::size_t i = 0; i < slot_count; ++i) ++work.starts[work.chosen[i].expert + 1];
  for (std::size_t e = 0; e < config.count; ++e) work.starts[e + 1] += work.starts[e];
  for (std::size_t i = 0; i < slot_count; ++i) {
    const std::uint32_t slot = work.starts[work.chosen[i].expert]++;
    work.slots[i] = slot;
    work.slot_rows[slot] = static_cast<std::uint32_t>(i / config.used);
  }
  // The loop has moved each expert's entry in `starts` to the start of the next expert.
  std::copy_backward(work.starts.begin(), work.starts.end() - 1, work.starts.end());
  work.starts[0] = 0;
}

// The inputs of one product of every slot, in the form that the product takes.
struct SlotInputs {
  InputForm form = InputForm::kFloats;
  const std::byte* data = nullptr;
  std::size_t row_bytes = 0;
};

// Copies each row of x, in the form `form`, to the slots of the row. Overwrites work.inputs.
SlotInputs GatherInputs(ForwardPass& pass, InputForm form, const RowBuffer& x) {
  const Compute& compute = pass.compute();
  ExpertWork& work = pass.expert_work();
  const std::size_t rows = pass.row_count(), n = x.width();
  auto* const gathered = reinterpret_cast<std::byte*>(work.inputs.data());
  SlotInputs inputs{.form = form, .data = gathered};
  const std::byte* from = reinterpret_cast<const std::byte*>(x[0]);
  inputs.row_bytes = n * sizeof(float);
  if (inputs.form != InputForm::kFloats) {
    PrepareInput(compute, inputs.form, x[0], n, rows, n, compute.inputs);
    from = compute.inputs;
    inputs.row_bytes = InputRowBytes(inputs.form, n);
  }
  pass.ForRows(rows * pass.config().experts.used, [&](std::size_t first, std::size_t last) {
    for (std::size_t slot = first; slot < last; ++slot) {
      std::memcpy(gathered + slot * inputs.row_bytes,
                  from + work.slot_rows[slot] * inputs.row_bytes, inputs.row_bytes);
    }
  });
  return inputs;
}

// Returns rows that are already in the order of slots as inputs in the form `form`. Overwrites
// work.inputs.
SlotInputs PrepareSlots(ForwardPass& pass, InputForm form, const RowBuffer& rows) {
  const std::size_t slot_count = pass.row_count() * pass.config().experts.used;
  const std::size_t n = rows.width();
  if (form == InputForm::kFloats) {
    return {form, reinterpret_cast<const std::byte*>(rows[0]), n * sizeof(float)};
  }
  auto* const prepared = reinterpret_cast<std::byte*>(pass.expert_work().inputs.data());
  PrepareInput(pass.compute(), form, rows[0], n, slot_count, n, prepared);
  return {form, prepared, InputRowBytes(form, n)};
}

// The mean number of rows of an expert's products, rounded up. It determines the form of the
// products of all experts of the step.
std::size_t MeanRows(const ForwardPass& pass) {
  const ExpertConfig& config = pass.config().experts;
  return (pass.row_count() * config.used + config.count - 1) / config.count;
}

// Returns the rows of x times the weight of each choice, in the order of slots. The rows lie in
// work.results, which is not used before the last product.
const RowBuffer& WeighInputs(ForwardPass& pass, const RowBuffer& x) {
  const ExpertWork& work = pass.expert_work();
  const std::size_t used = pass.config().experts.used;
  pass.ForRows(pass.row_count() * used, [&](std::size_t first, std::size_t last) {
    for (std::size_t choice = first; choice < last; ++choice) {
      pass.compute().kernels->scale(x[choice / used], work.chosen[choice].weight, x.width(),
                                    work.results[work.slots[choice]]);
    }
  });
  return work.results;
}

// Adds the product of every chosen expert to work.ready. Returns the bytes of the experts' weights.
std::size_t AddProducts(const ExpertMatrices& matrices, const SlotInputs& inputs,
                        const RowBuffer& y, ExpertWork& work) {
  std::size_t bytes = 0;
  const std::size_t n = matrices.shape.in_features;
  for (std::size_t e = 0; e + 1 < work.starts.size(); ++e) {
    const std::size_t first = work.starts[e], count = work.starts[e + 1] - first;
    if (count == 0) continue;
    const std::byte* input = inputs.data + first * inputs.row_bytes;
    const bool is_float = inputs.form == InputForm::kFloats;
    work.views.push_back(matrices.At(e));
    work.jobs.push_back({.linear = &work.views.back(),
                         .x = is_float ? reinterpret_cast<const float*>(input) : nullptr,
                         .x_stride = n,
                         .y = y.pointers() + first});
    work.ready.push_back({&work.jobs.back(), inputs.form, is_float ? nullptr : input, count});
    bytes += matrices.shape.out_features * kernels::RowBytes(matrices.shape.type, n);
  }
  return bytes;
}

void RunProducts(ForwardPass& pass, ExpertWork& work) {
  RunReady(pass.compute(), work.ready);
  work.ready.clear();
  work.jobs.clear();
  work.views.clear();
}

// Computes up and, with a gate, gate of all slots. Returns the bytes of the experts' weights.
std::size_t RunFirstProducts(ForwardPass& pass, const ExpertWeights& weights, const RowBuffer& x) {
  const auto form_of = [&](const ExpertMatrices& matrices) {
    return FormFor(pass.compute(), matrices.shape.type, MeanRows(pass));
  };
  const bool weighs_inputs = pass.config().experts.weighs_inputs;
  const RowBuffer& rows = weighs_inputs ? WeighInputs(pass, x) : x;
  const auto inputs_in = [&](InputForm form) {
    return weighs_inputs ? PrepareSlots(pass, form, rows) : GatherInputs(pass, form, rows);
  };
  ExpertWork& work = pass.expert_work();
  SlotInputs inputs = inputs_in(form_of(weights.up));
  std::size_t bytes = AddProducts(weights.up, inputs, work.up, work);
  if (!weights.gate.data.empty()) {
    // work.inputs holds the inputs in one form, so weights of two forms are computed one after the
    // other.
    const InputForm gate_form = form_of(weights.gate);
    if (gate_form != inputs.form) {
      RunProducts(pass, work);
      inputs = inputs_in(gate_form);
    }
    bytes += AddProducts(weights.gate, inputs, work.gate, work);
  }
  RunProducts(pass, work);
  return bytes;
}

// kExpertSum[row] = sum over the row's choices of weight * result of the slot; without the weight
// if the inputs were weighed.
const RowBuffer& SumResults(ForwardPass& pass, const ExpertWork& work) {
  const ExpertConfig& config = pass.config().experts;
  const RowBuffer& sum = pass.Rows(Scratch::kExpertSum, {config.input_size});
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* to = sum[row];
      for (std::size_t i = 0; i < config.used; ++i) {
        const std::size_t choice = row * config.used + i;
        const float* from = work.results[work.slots[choice]];
        const float weight = config.weighs_inputs ? 1.0f : work.chosen[choice].weight;
        for (std::size_t c = 0; c < config.input_size; ++c) {
          to[c] = i == 0 ? weight * from[c] : to[c] + weight * from[c];
        }
      }
    }
  });
  return sum;
}

}  // namespace

const RowBuffer& RunExperts(ForwardPass& pass, const ExpertWeights& weights, Activation activation,
                            const RowBuffer& router_input, const RowBuffer& x) {
  Route(pass, weights, router_input);
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kExperts);
  const ExpertConfig& config = pass.config().experts;
  ExpertWork& work = pass.expert_work();
  SortByExpert(config, pass.row_count(), work);

  std::size_t bytes = RunFirstProducts(pass, weights, x);
  const RowBuffer& hidden = weights.gate.data.empty() ? work.up : work.gate;
  pass.ForRows(pass.row_count() * config.used, [&](std::size_t first, std::size_t last) {
    for (std::size_t slot = first; slot < last; ++slot) {
      Activate(*pass.compute().kernels, activation, work.up[slot], config.size, hidden[slot]);
    }
  });

  const InputForm down_form = FormFor(pass.compute(), weights.down.shape.type, MeanRows(pass));
  const SlotInputs hidden_inputs = PrepareSlots(pass, down_form, hidden);
  bytes += AddProducts(weights.down, hidden_inputs, work.results, work);
  RunProducts(pass, work);
  if (pass.compute().profile != nullptr) pass.compute().profile->AddExpertBytes(bytes);
  return SumResults(pass, work);
}

void RunExpertLayer(ForwardPass& pass, const ExpertWeights& weights, Activation activation,
                    const RowBuffer& x) {
  if (weights.latent_down.weight) {
    const RowBuffer& latent =
        pass.Rows(Scratch::kLatent, {weights.latent_down.weight.out_features});
    pass.Project(weights.latent_down, x, latent);
    pass.AddToStream(weights.latent_up, RunExperts(pass, weights, activation, x, latent));
  } else {
    pass.AddRowsToStream(RunExperts(pass, weights, activation, x, x));
  }
  if (!weights.shared.up.weight) return;
  const StepProfile::Scope scope(pass.compute().profile, StepPhase::kFeedForward);
  const RowBuffer& hidden = HiddenRows(pass, weights.shared, activation, x);
  if (weights.shared_gate != nullptr) {
    // The shared expert's gate is one number for each row, so the gate may be applied before the
    // last product.
    pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
      const kernels::KernelTable& kernels = *pass.compute().kernels;
      for (std::size_t row = first; row < last; ++row) {
        float logit = 0.0f;
        kernels.lane_dots(weights.shared_gate, x[row], x.width(), 1, x.width(), &logit);
        kernels.scale(hidden[row], Logistic(logit), hidden.width(), hidden[row]);
      }
    });
  }
  pass.AddToStream(weights.shared.down, hidden);
}

// ---- parallel experts
void RunFeedForwardAndExperts(ForwardPass& pass, const LayerWeights& weights,
                              Activation activation) {
  const std::size_t width = pass.config().embedding_size;
  const float epsilon = pass.config().rms_epsilon;
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const FeedForwardWeights& dense = weights.feed_forward;
  const ParallelExpertNorms& norms = weights.parallel_experts;

  const RowBuffer& dense_rows = pass.Rows(Scratch::kProjected, {width});
  {
    const StepProfile::Scope scope(pass.compute().profile, StepPhase::kFeedForward);
    pass.Project(dense.down, HiddenRows(pass, dense, activation, pass.NormedStream(dense.norm)),
                 dense_rows);
  }
  const RowBuffer& router_rows = pass.Rows(Scratch::kMixerOutput, {width});
  const float factor = 1.0f / std::sqrt(static_cast<float>(width));
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* const x = router_rows[row];
      kernels.rms_norm(pass.stream()[row], norms.router_norm, width, epsilon, x);
      kernels.scale(x, factor, width, x);
    }
  });
  const RowBuffer& sum =
      RunExperts(pass, weights.experts, activation, router_rows, pass.NormedStream(norms.norm));
  pass.ForRows(pass.row_count(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      float* const from_dense = dense_rows[row];
      kernels.rms_norm(sum[row], norms.post_norm, width, epsilon, sum[row]);
      kernels.rms_norm(from_dense, norms.feed_forward_norm, width, epsilon, from_dense);
      kernels.add(from_dense, sum[row], width, sum[row]);
    }
  });
  pass.AddRowsToStream(sum, dense.post_norm);
}

}  // namespace kvd
