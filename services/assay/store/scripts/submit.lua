#!lua
-- Accept requests, all or none. Keys: requests.lua.
-- ARGV: tenant batch requests_max bytes_max rows staged queue_max worker_us_max
--   rows, staged: packed lists, see accepting.lua; staged '' = none of the rows are
--   worker_us_max: what the tenant may use of the workers in a day; '' = any
--   queue_max: this many go into the queue; the rest is held back for `release`
-- Returns {'DONE', accepted, duplicates, sealed, more_to_settle}
--      or {'NOT_FOUND' | 'NOT_OPEN' | 'OVER_SIZE' | 'QUOTA_REQUESTS' | 'QUOTA_BYTES' |
--          'OVER_REQUESTS' | 'OVER_BYTES' | 'NO_BLOB' | 'NOT_STAGED'}
--      or {'QUOTA_WORKERS', ms until it may submit again}
--      or {'CONFLICT' | 'OVER_GROUP' | 'NO_GROUP', index}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include new_jobs.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua
--@include accepting.lua

local tenant = ARGV[1]
local uid = tenant .. ':' .. ARGV[2]
local rows, ranges = cmsgpack.unpack(ARGV[5]), {}
if ARGV[6] ~= '' then ranges = cmsgpack.unpack(ARGV[6]) end
local b = batch_to_fill(uid)
if not b then return { 'NOT_FOUND' } end
local numbers = staged_numbers(ranges)
if not numbers then return { 'NOT_STAGED' } end
local refusal, t = check_requests(tenant, uid, b, rows, { ARGV[3], ARGV[4], ARGV[8] })
if refusal then return refusal end
if #t.fresh == 0 then
  for i = 1, #ranges, 2 do unstage(ranges[i], ranges[i + 1]) end
  delete(doomed)
  return { 'DONE', 0, t.count, b.state ~= 'OPEN' and 1 or 0, 0 }
end
return accept(tenant, uid, b, rows, t, ranges, numbers, tonumber(ARGV[7]))
