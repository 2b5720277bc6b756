// kvctl's verbs. Each function connects to the daemon, executes its verb and prints the result (as
// JSON with --json). If a function returns an error, main prints the error.
#pragma once

#include "base/error.h"
#include "kvctl/options.h"

namespace kvd::kvctl {

Status Run(const GlobalOptions& global, const RunOptions& options);

Status ListSequences(const GlobalOptions& global);
Status ForkSequence(const GlobalOptions& global, const SequenceOptions& options);
Status RemoveSequences(const GlobalOptions& global, const SequenceOptions& options);
Status ShowLog(const GlobalOptions& global, const SequenceOptions& options);
Status ShowText(const GlobalOptions& global, const SequenceOptions& options);

Status PublishSnapshot(const GlobalOptions& global, const SnapshotOptions& options);
Status AttachSnapshot(const GlobalOptions& global, const SnapshotOptions& options);
Status UnpublishSnapshot(const GlobalOptions& global, const SnapshotOptions& options);
Status ListSnapshots(const GlobalOptions& global);

Status SaveSequence(const GlobalOptions& global, const SavedOptions& options);
Status LoadSequences(const GlobalOptions& global, const SavedOptions& options);
Status ListSaved(const GlobalOptions& global, const SavedOptions& options);
Status ImportFile(const GlobalOptions& global, const LlamaOptions& options);
Status ExportFile(const GlobalOptions& global, const LlamaOptions& options);

Status WarmPrefix(const GlobalOptions& global, const WarmOptions& options);
Status ListTenants(const GlobalOptions& global);
Status SetLife(const GlobalOptions& global, const LifeOptions& options);
Status PinSequences(const GlobalOptions& global, const PrefixFlags& options, bool is_pinned);
Status DropSequences(const GlobalOptions& global, const PrefixFlags& options);

Status TokenizeText(const GlobalOptions& global, const TextOptions& options);
Status FormatChat(const GlobalOptions& global, const TextOptions& options);
Status ShowTemplate(const GlobalOptions& global, const TextOptions& options);
Status ExplainPrompt(const GlobalOptions& global, const TextOptions& options);
Status EmbedTexts(const GlobalOptions& global, const EmbedOptions& options);
Status RankDocuments(const GlobalOptions& global, const RankOptions& options);
Status ListDaemons(const GlobalOptions& global, const DaemonsOptions& options);
Status ShowInfo(const GlobalOptions& global);
Status ShowProfile(const GlobalOptions& global);
Status ShowMap(const GlobalOptions& global, const MapOptions& options);
Status ShowTop(const GlobalOptions& global, const MapOptions& options);
Status Defragment(const GlobalOptions& global);
Status PingDaemon(const GlobalOptions& global, const PingOptions& options);

}  // namespace kvd::kvctl
