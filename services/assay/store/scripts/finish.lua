#!lua flags=allow-oom
-- Report the ends of claims. Keys: requests.lua.
-- ARGV: stage attempts_max letters_max letters_per_tenant_max, then for each report
--       kind job fence started_ns finished_ns first second third
--   END      outcome reward body        GIVEBACK
--   HANDOVER next_stage handover        FAIL      error
-- Returns {statuses (1 done, 0 stale), completed: {slack_ms, HGETALL b} each}
--@include requests.lua
--@include shares.lua
--@include task_use.lua
--@include letters.lua
--@include ends.lua

local stage, attempts_max = ARGV[1], tonumber(ARGV[2])
local letters_max, own_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local HEAD, WIDTH = 4, 8
local statuses, released, told = {}, {}, {}
local served = {} -- tenant -> {requests that left the stage, their cost, correction}
local tenants = {} -- in the order of their first report: they move one estimate in turn

local function account(job, j, at)
  local tenant = tenant_of(j.uid)
  local sums = served[tenant] or { 0, 0, 0 }
  if not served[tenant] then tenants[#tenants + 1] = tenant end
  served[tenant] = sums
  local took_ns = tonumber(ARGV[at + 4]) - tonumber(ARGV[at + 3])
  local cost_us = math.max(math.floor(took_ns / 1000), COST_US_MIN)
  sums[1], sums[2], sums[3] = sums[1] + 1, sums[2] + cost_us, sums[3] + correction_us(j, cost_us)
end

local act = {}

function act.END(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  account(job, j, at)
  end_request(job, j, ARGV[at + 5], ARGV[at + 6], ARGV[at + 7], '',
    timing(j, started, finished), service(j, started, finished))
  drop_job(job, j)
end

function act.HANDOVER(job, j, at)
  local started, finished = ARGV[at + 3], ARGV[at + 4]
  call('HSET', P .. 'j:' .. job, 'm', j.timings .. timing(j, started, finished),
    'v', j.services .. (service(j, started, finished)))
  call('SET', P .. 'o:' .. job, ARGV[at + 6])
  account(job, j, at)
  j.stage, j.stages_gone = ARGV[at + 5], j.stages_gone + 1
  j.attempts, j.enqueued, j.charged = 0, NOW_US, 0
  deliver_again(job, j, '')
end

function act.FAIL(job, j, at)
  if j.attempts < attempts_max then
    deliver_again(job, j, ARGV[at + 5])
  else
    local started, finished = ARGV[at + 3], ARGV[at + 4]
    account(job, j, at)
    bury(job, j, ARGV[at + 5], timing(j, started, finished), letters_max, own_max,
      service(j, started, finished))
  end
end

function act.GIVEBACK(job, j)
  j.attempts, j.claims = j.attempts - 1, j.claims - 1
  deliver_again(job, j, '')
end

for at = HEAD + 1, #ARGV, WIDTH do
  local job = ARGV[at + 1]
  local j = read_job(job)
  local n = #statuses + 1
  local held = j and not told[job] and j.state == 'L' and j.stage == stage
  if held and j.fence == tonumber(ARGV[at + 2]) then
    act[ARGV[at]](job, j, at)
    told[job] = true
    released[#released + 1] = job
    statuses[n] = 1
  else
    statuses[n] = 0
  end
end
in_slices('ZREM', P .. 'l:' .. stage, released)
for _, tenant in ipairs(tenants) do
  local sums = served[tenant]
  learn(stage, tenant, sums[2], sums[1])
  correct(stage, tenant, sums[3])
end
write_touched()
return { statuses, completed }
