#!lua
-- Open a batch and accept all its first requests, or neither: `open_batch` and `submit` in one call.
-- Keys: requests.lua. ARGV: those of opening.lua, then rows (packed, see accepting.lua) and
-- worker_us_max, as in submit.lua.
-- Returns as `submit` does, or {'BATCH', refusal} with a refusal of `open_batch`
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include new_tasks.lua
--@include new_jobs.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua
--@include opening.lua
--@include accepting.lua

local tenant = ARGV[1]
local uid = tenant .. ':' .. ARGV[2]
local refusal, opening = check_opening(ARGV)
if refusal and refusal ~= 'THERE' then return { 'BATCH', refusal } end
local b
if opening then
  b = { is_new = true, state = 'OPEN', size = tonumber(ARGV[4]), submitted = 0, k = tonumber(ARGV[5]),
    first = opening.first, deadline = opening.deadline, rank = 0,
    reserved = opening.requests .. ' ' .. opening.bytes, gathers = opening.gathers }
else
  b = batch_to_fill(uid)
end
local rows = cmsgpack.unpack(ARGV[23])
local found, t = check_requests(tenant, uid, b, rows, { ARGV[15], ARGV[16], ARGV[24] })
if found then return found end
if opening then write_opening(ARGV, opening) end
if #t.fresh == 0 then return { 'DONE', 0, t.count, b.state ~= 'OPEN' and 1 or 0, 0 } end
return accept(tenant, uid, b, rows, t, {}, {}, #t.fresh)
