"""Operations of the reward service, independent of the transport; `RewardService` joins them."""
